"""Streams of rows: a line in, a line out, in order, for as long as the client sends.

    routes       POST /models/{name}/feedback/stream and /predict/stream; what is checked before the 200
    exchange     the life of one stream: what has arrived is answered, then what has arrived meanwhile
    intake       the body cut into lines, whatever pieces it arrives in; how many bytes wait
    decoding     lines to rows, some hundred at once where they allow it, else one by one
    learning     rows to learn: one segment of the log where they are alike, else row by row
    predicting   rows to predict
    answers      rows of answers, refused lines, the last line

    client --> intake --> decoded --> learned or predicted --> written --> client
                          one segment ahead     one segment, then the next

A segment is what has arrived, up to ``SEGMENT_ROWS`` lines. While one is committed the next is decoded, if it is here,
and nothing is received: what a stream holds is bounded, and TCP holds back the client. One is committed after the
other, so rows learn in the order of the stream, also where some of them have to be sent again.
"""
