"""Parts of the document behind /docs, for the tests of it."""


def operations(document):
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def walk(value):
    yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(item)


def resolved(document, schema):
    """A schema that stands alone: its references lead into the document."""
    return {**schema, "components": document["components"]}
