"""Croissant metadata of a packaged dataset: each file with its hash, each table and split as a record set.

Format: https://docs.mlcommons.org/croissant/docs/croissant-spec-1.0.html
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmark.parquet import read_table
from benchmark.records import KEYS, schema

SPECIFICATION = "http://mlcommons.org/croissant/1.0"
LICENCE = "https://creativecommons.org/licenses/by/4.0/"
_TYPES = {"string": "sc:Text", "double": "sc:Float", "int64": "sc:Integer", "bool": "sc:Boolean"}
_CONTEXT: Mapping[str, Any] = {
    "@language": "en", "@vocab": "https://schema.org/", "citeAs": "cr:citeAs", "column": "cr:column",
    "conformsTo": "dct:conformsTo", "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/", "data": {"@id": "cr:data", "@type": "@json"},
    "dataBiases": "cr:dataBiases", "dataCollection": "cr:dataCollection",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"}, "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty", "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract", "field": "cr:field", "fileObject": "cr:fileObject", "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet", "format": "cr:format", "includes": "cr:includes", "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath", "key": "cr:key", "md5": "cr:md5", "parentField": "cr:parentField", "path": "cr:path",
    "personalSensitiveInformation": "cr:personalSensitiveInformation", "recordSet": "cr:recordSet",
    "references": "cr:references", "regex": "cr:regex", "repeated": "cr:repeated", "replace": "cr:replace",
    "samplingRate": "cr:samplingRate", "sc": "https://schema.org/", "separator": "cr:separator",
    "source": "cr:source", "subField": "cr:subField", "transform": "cr:transform",
}  # fmt: skip


def croissant(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON-LD document of a packaged dataset; paths are relative to the folder."""
    name = manifest["dataset"]
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": name,
        "description": "Measured GPU kernels with lineage, parent-child pairs, intervals and raw samples.",
        "conformsTo": SPECIFICATION,
        "license": LICENCE,
        "url": f"https://huggingface.co/datasets/{hub_repository(name)}",
        "version": f"{manifest['schema_version']}.0.0",
        "datePublished": _last_day(folder, manifest),
        "citeAs": f"KernelCast contributors: KernelCast, dataset {name}",
        "creator": {"@type": "Organization", "name": "KernelCast contributors"},
        "distribution": [_file(relative, entry) for relative, entry in manifest["files"].items()],
        "recordSet": [_record_set(relative) for relative in manifest["files"]],
    }


def hub_repository(dataset: str) -> str:
    """Return the id of a dataset on the Hugging Face Hub."""
    return f"kernelcast/{dataset}"


def _last_day(folder: Path, manifest: Mapping[str, Any]) -> str:
    """The day of the last session: packaging again does not change it."""
    days = ["1970-01-01"]
    for relative in manifest["files"]:
        if relative.startswith("sessions/"):
            days += read_table(folder / relative, "sessions", ["started_at"]).column("started_at").to_pylist()
    return max(days)[:10]


def _file(relative: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": relative,
        "name": relative,
        "contentUrl": relative,
        "contentSize": f"{entry['bytes']} B",
        "encodingFormat": "application/x-parquet",
        "sha256": entry["sha256"],
    }


def _record_set(relative: str) -> dict[str, Any]:
    table = relative.split("/")[0]
    split = relative.split("/")[1].split("-")[0]
    name = table if split == "all" else f"{table}_{split}"
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "key": [{"@id": f"{name}/{column}"} for column in KEYS[table]],
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{field.name}",
                "name": field.name,
                "dataType": _TYPES[str(field.type)],
                "source": {"fileObject": {"@id": relative}, "extract": {"column": field.name}},
            }
            for field in schema(table)
        ],
    }
