"""Certificates: only what the node signed is believed."""

from __future__ import annotations

import json
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import gpugoblin as gg
from gpugoblin.client.certificate import JobCertificate
from gpugoblin.client.job import Job
from gpugoblin.client.session import Session
from gpugoblin.errors import ClientError, WireError
from tests.helpers.fake_node import FakeNode


@pytest.fixture
def job(lab: Session) -> Job:
    made = gg.array([1, 2, 3]).sum().save(name="sum")
    assert isinstance(made, Job)
    return made


def test_a_certificate_can_be_kept_and_checked_again(job: Job, node: FakeNode) -> None:
    certificate = job.certificate()
    again = JobCertificate.from_json(certificate.to_json(), node_key=certificate.node_key)
    assert (again.body, again.signature) == (certificate.body, certificate.signature)
    assert certificate.body.job == job.id
    text = str(certificate)
    assert certificate.node_key in text
    assert "4 product check" in text
    assert "<table>" in certificate._repr_html_()


def test_a_changed_figure_is_found(job: Job) -> None:
    kept = json.loads(job.certificate().to_json())
    kept["body"]["tasks"] += 1
    with pytest.raises(ClientError) as caught:
        JobCertificate.from_json(json.dumps(kept))
    assert caught.value.code == "certificate_invalid"


def test_another_key_is_not_believed(job: Job) -> None:
    text = job.certificate().to_json()
    with pytest.raises(ClientError, match="is signed by the key"):
        JobCertificate.from_json(text, node_key="0" * 64)


def test_what_is_no_certificate() -> None:
    with pytest.raises(WireError, match="message_malformed"):
        JobCertificate.from_json("{}")


def test_a_certificate_about_another_job_is_not_believed(
    job: Job, lab: Session, node: FakeNode
) -> None:
    other = gg.array([1, 2]).sum().save(name="other")
    assert isinstance(other, Job)
    stolen = json.dumps(json.loads(other.certificate().to_json())).encode()
    node.spoil[f"/v1/jobs/{job.id}/certificate"] = [(200, stolen)]
    with pytest.raises(ClientError, match="about another job"):
        job.certificate()


def test_a_node_that_changes_its_key_is_not_believed(job: Job, node: FakeNode) -> None:
    node.key = Ed25519PrivateKey.generate()
    with pytest.raises(ClientError, match="is signed by the key"):
        job.certificate()


def test_without_cryptography_it_says_what_to_install(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gpugoblin.wire.signing", None)
    with pytest.raises(ClientError, match="pip install cryptography"):
        job.certificate()
