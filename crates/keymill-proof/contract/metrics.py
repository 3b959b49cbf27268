"""Whether others can read the metrics: in the text format of Prometheus and in OpenMetrics, by the parsers of
`prometheus_client`, which are those that the formats' authors maintain.

`check` runs it with the address of a server that has handed out keys. The parser of OpenMetrics is strict: it refuses a
sample that is not next to the others of its family, a counter without `_total`, a unit that is not in the name,
buckets that shrink, a label twice, and a text without its end.
"""

import sys
import urllib.request

from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

FORMATS = {
    "application/openmetrics-text; version=1.0.0": openmetrics,
    "text/plain; version=0.0.4": parser,
}


def families(url, content_type, reader):
    """The families in one format, by name."""
    request = urllib.request.Request(f"{url}/metrics", headers={"Accept": content_type})
    with urllib.request.urlopen(request, timeout=10) as answer:
        given = answer.headers["Content-Type"]
        assert given == f"{content_type}; charset=utf-8", given
        text = answer.read().decode()
    found = {}
    for family in reader.text_string_to_metric_families(text):
        assert family.name not in found, f"{family.name} comes twice"
        found[family.name] = family
    return found


def names(found):
    """What a query can name, with the names of its labels."""
    return {(sample.name, *sorted(sample.labels)) for family in found.values() for sample in family.samples}


def main():
    url = sys.argv[1]
    strict, plain = (families(url, content_type, reader) for content_type, reader in FORMATS.items())
    assert names(strict) == names(plain), f"only in one format: {names(strict) ^ names(plain)}"
    kinds = {family.type for family in strict.values()}
    assert kinds == {"counter", "gauge", "histogram", "info"}, kinds
    for family in strict.values():
        assert family.documentation, f"{family.name} is not explained"
        for unit in ("seconds", "bytes"):
            assert not family.name.endswith(f"_{unit}") or family.unit == unit, f"{family.name} has no unit"
    taken = sum(sample.value for sample in strict["keymill_keys"].samples)
    assert taken > 0, "no key was counted"
    print(f"contract: {len(strict)} families, {sum(len(it.samples) for it in strict.values())} samples")


main()
