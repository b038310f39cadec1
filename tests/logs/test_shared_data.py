"""Logs others captured, when they lie beside the project: nearly every event line must parse."""

from __future__ import annotations

from pathlib import Path

import pytest

from pier_node.logs import Parser, detect

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
SHARE_MIN = 0.99
EXPECTED = {
    "firewall/windows_pfirewall.log": "windows",
    "formats/crowdsec/fortinet-vpn-bf": "fortinet",
    "formats/crowdsec/iptables-logs": "iptables",
    "formats/crowdsec/iptables-scan-multi-port": "iptables",
    "formats/crowdsec/mikrotik-logs": "mikrotik",
    "formats/crowdsec/mikrotik-scan-multi_ports": "mikrotik",
    "formats/crowdsec/palo-alto-threat": "paloalto",
    "formats/crowdsec/pf-logs": "filterlog",
    "formats/crowdsec/pf-scan-multi-port": "filterlog",
    "formats/crowdsec/pfsense-rfc5424-filterlog": "filterlog",
    "formats/crowdsec/proxmox-iptables-logs": "proxmox",
    "formats/crowdsec/suricata-logs-evelog": "eve",
    "formats/crowdsec/suricata-logs-fastlog": "fast",
    "formats/crowdsec/unifi-cef": "cef",
    "formats/crowdsec/unifi-logs": "unifi",
    "ids/suricata_eve_pcap.json": "eve",
    "ids/zeek_zat/conn.log": "zeek",
    "ids/zeek_zat/conn_date_issue.log": "zeek",
    "ids/zeek_zat/json/conn.log": "zeek-json",
}
OTHERS = (
    "auth_beats",
    "formats/crowdsec/sshd-logs",
    "formats/crowdsec/opnsense-sshd",
    "ids/zeek_zat/dns.log",
)
REFERENCE_US = 1_767_225_600_000_000

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared/data beside the project")


def files(place: str) -> list[Path]:
    path = SHARED / place
    found = sorted(path.glob("*.log")) if path.is_dir() else [path]
    return [file for file in found if file.is_file()]


@pytest.mark.parametrize("place", EXPECTED)
def test_share_of_event_lines_parsed(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    for file in files(place) or [pytest.skip(f"{place} is not there")]:
        raw = file.read_bytes()
        found = detect(raw)
        assert found.dialect == EXPECTED[place]
        parser = Parser(EXPECTED[place], reference_us=REFERENCE_US)
        parser.feed(raw)
        parser.finish()
        figures = parser.statistics()
        share = figures.parsed / (figures.parsed + figures.unparsed)
        with capsys.disabled():
            print(
                f"\n{place}: {figures.parsed} of {figures.parsed + figures.unparsed} event lines, {share:.2%}"
            )
        assert share >= SHARE_MIN, parser.unparsed()


@pytest.mark.parametrize("place", OTHERS)
def test_logs_of_other_programs_are_no_firewall_logs(place: str) -> None:
    for file in files(place):
        assert detect(file.read_bytes()).dialect is None
