"""The command ``onepass``: a service, and the same service from a shell.

    command          what commands there are; one is declared and imported when it is asked for; exit statuses
    serve            onepass serve
    flags, sources   every setting as a flag; settings from flags, variables, files; what is no setting
    settings, keys   onepass settings; onepass keys new
    refusal          why a configuration cannot be served, for serve and settings
    files            onepass replay, compare and demo, which service.replay carries out
    connection       the address, the key, requests, refusals: what the commands below share
    listing, show    onepass models; onepass show NAME
    create           onepass create NAME, onepass delete NAME
    rows, values     onepass predict and feedback; values typed in a shell, as the model's features understand them
    explanation      why a row is predicted as it is, as a table
    states           onepass export and import; all_states, tar_members: a tar of all models; state_files: shared
    overwriting      what is asked before a model's state, or a file, is lost
    numbers          scores as people read them, and a curve in one line

Help starts without pydantic, NumPy and the like: a module is imported when its command is asked for.
"""

from service.cli.command import main

__all__ = ["main"]
