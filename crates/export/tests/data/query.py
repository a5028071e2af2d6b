"""Runs queries on an export: query.py OUTDIR < JSON list of SQL; prints the rows of each as JSON."""

import json
import os
import sys

import duckdb

os.chdir(sys.argv[1])
connection = duckdb.connect()
with open("views.sql") as views:
    connection.execute(views.read())
answers = []
for query in json.load(sys.stdin):
    try:
        answers.append(connection.execute(query).fetchall())
    except duckdb.Error as error:
        sys.exit(f"{error}\n{query}")
json.dump(answers, sys.stdout, default=float)
