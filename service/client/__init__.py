"""``onepass``: the service from a shell.

    app        the table of commands, each loaded when it is asked for; signals; failures: exit statuses
    session    one service over HTTP: address, key, retries, refusals in words
    options    what several commands take: names, parameters, costs
    display    tables, numbers, curves in a line
    models     onepass models, show
    rows       onepass create, predict, feedback, delete; typed text as the model's features understand it
    states     onepass export, import: state files, and tars of all models
    keys       onepass keys new
    serving    onepass serve, settings; sources: flags, variables and files, in this order
    private    a service for one command, on a free port and a temporary directory
    replay     onepass replay, compare
    demo       onepass demo

It talks HTTP; only ``serve`` and ``settings`` import the rest of the service, when they run.
"""
