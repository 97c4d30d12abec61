"""`trainwitness tasks`: the built-in tasks."""

from __future__ import annotations

from trainwitness.cli.output import DataOption, JsonOption, Output


def tasks(data: DataOption = None, json: JsonOption = None) -> int:
    """List the built-in tasks, their parameter counts, and whether their data is there.

    Example: trainwitness tasks --data ~/datasets
    """
    from trainwitness.tasks.registry import entries
    from trainwitness.tasks.task import parameter_count

    output = Output(json)
    rows = [
        {
            "name": entry.name,
            "about": entry.about,
            "parameters": parameter_count(entry.model),
            "data": entry.source.name,
            "data_available": entry.source.available(data),
            "options": {name: field.default for name, field in entry.options.model_fields.items()},
        }
        for entry in entries()
    ]
    output.say(f"{'task':<18}{'parameters':>12}  {'data':<10}{'there':<7}about")
    for row in rows:
        there = "yes" if row["data_available"] else "no"
        output.say(f"{row['name']:<18}{row['parameters']:>12,}  {row['data']:<10}{there:<7}{row['about']}")
    output.say(
        "\nYour own: record package.module:function, where the function takes options by name and returns a Task."
    )
    output.result("tasks", {"tasks": rows})
    return 0
