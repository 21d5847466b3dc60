"""Prints the options of dranspose's command line, as its parser has them: for each subcommand a list of
{"spellings": [each long form that the parser takes], "target": NAME, "required": BOOL}.
"""

import argparse
import json

from dranspose.cli import create_parser


def spellings(parser, option):
    """The option itself, and its beginnings that mean no other option."""
    beginnings = [option[:end] for end in range(len("--x"), len(option))]
    return [option, *(text for text in beginnings if len(parser._get_option_tuples(text)) == 1)]


def options(parser):
    for action in parser._actions:
        long = [option for option in action.option_strings if option.startswith("--")]
        if long:
            texts = [text for option in long for text in spellings(parser, option)]
            yield {"spellings": texts, "target": action.dest, "required": action.required}


commands = next(one for one in create_parser()._actions if isinstance(one, argparse._SubParsersAction)).choices
print(json.dumps({name: list(options(commands[name])) for name in ("ingester", "http_ingester")}))
