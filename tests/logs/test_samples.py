"""Lines of every dialect, written for these tests, with every column they must become."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from pier_node.logs import DIALECTS, FIREWALL_SCHEMA, detect
from tests.logs.events import parse

COLUMNS = [name for name in FIREWALL_SCHEMA.names if name not in ("ts", "raw_format")]


def at(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)


def expect(ts: str, values: str) -> dict[str, Any]:
    """host action direction iface proto src spt dst dpt length ttl rule; `-` is null, `~` in a rule a space."""
    words: list[Any] = [None if word == "-" else word for word in values.split()]
    row: dict[str, Any] = dict(zip(COLUMNS, words, strict=True))
    for name in ("spt", "dpt", "length", "ttl"):
        row[name] = None if row[name] is None else int(row[name])
    row["rule"] = row["rule"] and row["rule"].replace("~", " ")
    return {"ts": at(ts), **row}


V4 = "SRC=198.51.100.7 DST=203.0.113.9 LEN=60 TOS=0x00 PREC=0x00 TTL=52 ID=4711 DF"
TCP = "PROTO=TCP SPT=40112 DPT=22 WINDOW=64240 RES=0x00 SYN URGP=0"
V6 = (
    "SRC=2001:0db8:0000:0000:0000:0000:0000:0001 DST=2001:0db8:00ab:0000:0000:0000:0000:00ff LEN=80 TC=0 "
    "HOPLIMIT=63 FLOWLBL=99 PROTO=UDP SPT=5353 DPT=53 LEN=40"
)
QUOTED = (
    "SRC=198.51.100.7 DST=203.0.113.9 LEN=96 TOS=0x00 PREC=0xC0 TTL=52 ID=1 PROTO=ICMP TYPE=3 CODE=3 "
    "[SRC=203.0.113.9 DST=198.51.100.7 LEN=68 TOS=0x00 PREC=0x00 TTL=51 ID=2 PROTO=UDP SPT=53 DPT=4444 LEN=48 ]"
)
TAIL = "tcp 198.51.100.7 40112 203.0.113.9 22 60 52"

SAMPLES: list[tuple[str, str, dict[str, Any]]] = [
    (
        "iptables",
        f"Mar  7 04:05:06 gate kernel: [  203.842973] FW-DROP: IN=eth0 OUT= MAC=00:11 {V4} {TCP}",
        expect("2025-03-07T04:05:06", f"gate drop in eth0 {TAIL} FW-DROP"),
    ),
    (
        "iptables",
        f"<4>Mar 17 04:05:06 gate kernel: accepted:IN= OUT=eth1 {V4} {TCP} ",
        expect("2025-03-17T04:05:06", f"gate allow out eth1 {TAIL} accepted"),
    ),
    (
        "iptables",
        f"2025-03-07T04:05:06.789012+02:00 gate kernel: IN=eth0 OUT=eth1 {V6}",
        expect(
            "2025-03-07T02:05:06.789012",
            "gate log forward eth0 udp 2001:db8::1 5353 2001:db8:ab::ff 53 80 63 -",
        ),
    ),
    (
        "iptables",
        f"<4>1 2025-03-07T04:05:06Z gate kernel - - - REJECT in IN=eth0 OUT= {QUOTED}",
        expect(
            "2025-03-07T04:05:06", "gate reject in eth0 icmp 198.51.100.7 - 203.0.113.9 - 96 52 REJECT~in"
        ),
    ),
    (
        "ufw",
        f"Dec 31 23:59:59 web1 kernel: [19955416.516358] [UFW LIMIT BLOCK] IN=ens2 OUT= MAC=de {V4} {TCP}",
        expect("2024-12-31T23:59:59", f"web1 drop in ens2 {TAIL} UFW~LIMIT~BLOCK"),
    ),
    (
        "ufw",
        f"2025-01-02T03:04:05.000006+00:00 web1 kernel: [UFW AUDIT] IN=lo OUT= {V4} {TCP}",
        expect("2025-01-02T03:04:05.000006", f"web1 log in lo {TAIL} UFW~AUDIT"),
    ),
    (
        "nftables",
        f"Mar  7 04:05:06 gate kernel: nft input drop IN=eth0 OUT= MAC=00:11 {V4} {TCP}",
        expect("2025-03-07T04:05:06", f"gate drop in eth0 {TAIL} nft~input~drop"),
    ),
    (
        "firewalld",
        f"Mar  7 04:05:06 gate kernel: filter_IN_public_REJECT: IN=eth0 OUT= {V4} {TCP}",
        expect("2025-03-07T04:05:06", f"gate reject in eth0 {TAIL} filter_IN_public_REJECT"),
    ),
    (
        "firewalld",
        f"Mar  7 04:05:06 gate kernel: [77.000001] STATE_INVALID_DROP: IN=eth0 OUT=eth1 {V6}",
        expect(
            "2025-03-07T04:05:06",
            "gate drop forward eth0 udp 2001:db8::1 5353 2001:db8:ab::ff 53 80 63 STATE_INVALID_DROP",
        ),
    ),
    (
        "proxmox",
        f"101 6 tap101i0-OUT 07/Mar/2025:04:05:06 -0130 policy REJECT: IN=fwbr101i0 OUT=fwbr101i0 {V4} {TCP}",
        expect("2025-03-07T05:35:06", f"- reject out fwbr101i0 {TAIL} tap101i0-OUT"),
    ),
    (
        "unifi",
        f'Mar  7 04:05:06 UDM UDM [LAN_IN-A-2001] DESCR="drop nothing" IN=br0 OUT=eth8 {V4} {TCP} MARK=1a0000',
        expect("2025-03-07T04:05:06", f"UDM allow forward br0 {TAIL} LAN_IN-A-2001"),
    ),
    (
        "filterlog",
        "Mar  7 04:05:06 pf filterlog[99]: 5,,,1000000103,em0,match,block,in,4,0x0,,52,1,0,DF,6,tcp,60,"
        "198.51.100.7,203.0.113.9,40112,22,0,S,1,,64240,,mss",
        expect("2025-03-07T04:05:06", f"pf drop in em0 {TAIL} 1000000103"),
    ),
    (
        "filterlog",
        '<134>1 2025-03-07T04:05:06+01:00 opn filterlog 99 - [meta sequenceId="7"] 98,,,0abc,re0,match,pass,out,6,'
        "0x00,0x0ea87,63,udp,17,80,2001:db8::1,2001:db8:ab::ff,5353,53,40",
        expect("2025-03-07T03:05:06", "opn allow out re0 udp 2001:db8::1 5353 2001:db8:ab::ff 53 80 63 0abc"),
    ),
    (
        "filterlog",
        "Mar  7 04:05:06 pf filterlog: 7,,,,em1,match,pass,out,4,0x10,,255,0,0,DF,112,carp,56,"
        "198.51.100.2,224.0.0.18,advertise,255,1,2,0,1",
        expect("2025-03-07T04:05:06", "pf allow out em1 carp 198.51.100.2 - 224.0.0.18 - 56 255 7"),
    ),
    (
        "filterlog",
        "Mar  7 04:05:06 filterlog[99]: 9,,,12,em1,match,block,in,4,0x0,,60,0,0,none,1,icmp,84,"
        "198.51.100.7,203.0.113.9,request,1,2",
        expect("2025-03-07T04:05:06", "- drop in em1 icmp 198.51.100.7 - 203.0.113.9 - 84 60 12"),
    ),
    (
        "windows",
        "2025-03-07 04:05:06 DROP TCP 198.51.100.7 203.0.113.9 40112 22 60 S 1 0 64240 - - - RECEIVE",
        expect("2025-03-07T04:05:06", "- drop in - tcp 198.51.100.7 40112 203.0.113.9 22 60 - -"),
    ),
    (
        "windows",
        "2025-03-07 04:05:06 ALLOW 58 FE80::1 ff02::fb - - 0 - - - - 135 0 - SEND",
        expect("2025-03-07T04:05:06", "- allow out - icmpv6 fe80::1 - ff02::fb - 0 - -"),
    ),
    (
        "asa",
        "Mar 07 2025 04:05:06 asa1 : %ASA-4-106023: Deny tcp src outside:198.51.100.7/40112 dst "
        'dmz:203.0.113.9/22 by access-group "outside_in" [0x8ed66b60, 0x0]',
        expect(
            "2025-03-07T04:05:06", "asa1 drop - outside tcp 198.51.100.7 40112 203.0.113.9 22 - - outside_in"
        ),
    ),
    (
        "asa",
        "<166>Mar 07 2025 04:05:06: %ASA-4-106023: Deny icmp src outside:2001:db8::1 dst inside:2001:db8::2 "
        '(type 128, code 0) by access-group "v6"',
        expect("2025-03-07T04:05:06", "- drop - outside icmp 2001:db8::1 - 2001:db8::2 - - - v6"),
    ),
    (
        "asa",
        "Mar  7 04:05:06 asa1 %ASA-6-106100: access-list acl permitted udp inside/10.1.1.1(5000) -> "
        "outside/203.0.113.9(53) hit-cnt 1 first hit [0x1, 0x2]",
        expect("2025-03-07T04:05:06", "asa1 allow - inside udp 10.1.1.1 5000 203.0.113.9 53 - - acl"),
    ),
    (
        "asa",
        "Mar  7 04:05:06 asa1 %ASA-2-106001: Inbound TCP connection denied from 198.51.100.7/40112 to "
        "203.0.113.9/22 flags SYN  on interface outside",
        expect("2025-03-07T04:05:06", "asa1 drop in outside tcp 198.51.100.7 40112 203.0.113.9 22 - - -"),
    ),
    (
        "asa",
        "2025-03-07T04:05:06Z asa1 %ASA-6-302013: Built outbound TCP connection 9 for outside:203.0.113.9/443 "
        "(203.0.113.9/443) to inside:10.1.1.1/5000 (198.51.100.1/5000) (bob)",
        expect("2025-03-07T04:05:06", "asa1 allow out inside tcp 10.1.1.1 5000 203.0.113.9 443 - - -"),
    ),
    (
        "asa",
        "Mar  7 04:05:06 asa1 %ASA-6-302015: Built inbound UDP connection 9 for outside:198.51.100.7/40112 "
        "(198.51.100.7/40112) to dmz:203.0.113.9/53 (203.0.113.9/53)",
        expect("2025-03-07T04:05:06", "asa1 allow in outside udp 198.51.100.7 40112 203.0.113.9 53 - - -"),
    ),
    (
        "asa",
        "Mar  7 04:05:06 asa1 %ASA-6-302014: Teardown TCP connection 9 for outside:198.51.100.7/40112 to "
        "dmz:203.0.113.9/22 duration 0:01:02 bytes 4096 TCP FINs",
        expect("2025-03-07T04:05:06", "asa1 close - outside tcp 198.51.100.7 40112 203.0.113.9 22 4096 - -"),
    ),
    (
        "asa",
        "Mar  7 04:05:06 asa1 %ASA-6-302016: Teardown UDP connection 9 for outside:198.51.100.7/40112(LOCAL\\bob) "
        "to dmz:203.0.113.9/53 duration 0:01:02 bytes 99",
        expect("2025-03-07T04:05:06", "asa1 close - outside udp 198.51.100.7 40112 203.0.113.9 53 99 - -"),
    ),
    (
        "asa",
        "Mar  7 04:05:06 asa1 %ASA-6-305011: Built dynamic TCP translation from inside:10.1.1.1/5000 to "
        "outside:198.51.100.1/6000",
        expect("2025-03-07T04:05:06", "asa1 translate - inside tcp 10.1.1.1 5000 198.51.100.1 6000 - - -"),
    ),
    (
        "eve",
        '{"timestamp":"2025-03-07T04:05:06.000007+0100","in_iface":"eth0","event_type":"alert","src_ip":'
        '"198.51.100.7","src_port":40112,"dest_ip":"203.0.113.9","dest_port":22,"proto":"TCP","alert":{"action":'
        '"blocked","gid":1,"signature_id":77,"rev":2,"signature":"SSH scan"},"flow":{"bytes_toserver":50,'
        '"bytes_toclient":10}}',
        expect(
            "2025-03-07T03:05:06.000007",
            "- drop - eth0 tcp 198.51.100.7 40112 203.0.113.9 22 60 - 1:77:2~SSH~scan",
        ),
    ),
    (
        "eve",
        '{"timestamp":"2025-03-07T04:05:06.000007+0000","host":"ids1","event_type":"drop","src_ip":'
        '"2001:DB8::1","dest_ip":"2001:db8::2","proto":"IPv6-ICMP","icmp_type":128,"drop":{"len":60,"ttl":52}}',
        expect("2025-03-07T04:05:06.000007", "ids1 drop - - icmpv6 2001:db8::1 - 2001:db8::2 - 60 52 -"),
    ),
    (
        "fast",
        "03/07/2025-04:05:06.000007  [Drop] [**] [1:77:2] SSH scan [**] [Classification: Misc] [Priority: 3] "
        "{TCP} 2001:db8::1:40112 -> 2001:db8::2:22",
        expect(
            "2025-03-07T04:05:06.000007",
            "- drop - - tcp 2001:db8::1 40112 2001:db8::2 22 - - 1:77:2~SSH~scan",
        ),
    ),
    (
        "fast",
        "12/31-23:59:59.123456 [**] [1:384:5] ICMP PING [**] [Priority: 3] {ICMP} 198.51.100.7 -> 203.0.113.9",
        expect(
            "2024-12-31T23:59:59.123456",
            "- alert - - icmp 198.51.100.7 - 203.0.113.9 - - - 1:384:5~ICMP~PING",
        ),
    ),
    (
        "zeek",
        "1741320306.000007\tCx1\t198.51.100.7\t40112\t203.0.113.9\t22\ttcp\tssh\t0.1\t10\t20\tREJ\tF\tT\t0\tSr\t1\t"
        "50\t1\t10\t-",
        expect("2025-03-07T04:05:06.000007", "- reject in - tcp 198.51.100.7 40112 203.0.113.9 22 60 - -"),
    ),
    (
        "zeek-json",
        '{"ts":1741320306.000007,"uid":"C","id.orig_h":"fe80::1","id.orig_p":136,"id.resp_h":"ff02::1",'
        '"id.resp_p":135,"proto":"icmp","conn_state":"OTH","local_orig":true,"local_resp":false,"orig_bytes":9}',
        expect("2025-03-07T04:05:06.000007", "- flow out - icmp fe80::1 - ff02::1 - 9 - -"),
    ),
    (
        "zeek-json",
        '{"ts":"2025-03-07T04:05:06.000007Z","id.orig_h":"198.51.100.7","id.orig_p":40112,"id.resp_h":'
        '"203.0.113.9","id.resp_p":22,"proto":"tcp","conn_state":"SF","orig_ip_bytes":50,"resp_ip_bytes":10}',
        expect("2025-03-07T04:05:06.000007", "- flow - - tcp 198.51.100.7 40112 203.0.113.9 22 60 - -"),
    ),
    (
        "vpcflow",
        "2 123456789010 eni-0abc 198.51.100.7 203.0.113.9 40112 22 6 1 60 1741320306 1741320366 REJECT OK",
        expect("2025-03-07T04:05:06", "- reject - eni-0abc tcp 198.51.100.7 40112 203.0.113.9 22 60 - -"),
    ),
    (
        "fortinet",
        'date=2025-03-07 time=04:05:06 eventtime=1741320306000007000 tz="+0000" devname="fg 1" logid="0000000013" '
        'type="traffic" subtype="forward" srcip=198.51.100.7 srcport=40112 srcintf="port1" dstip=203.0.113.9 '
        'dstport=22 proto=6 action="deny" policyid=7 sentbyte=60 rcvdbyte=0 msg="not srcip=1.1.1.1 action=accept"',
        {
            **expect("2025-03-07T04:05:06.000007", f"fg~1 drop forward port1 {TAIL} 7"),
            "host": "fg 1",
            "ttl": None,
        },
    ),
    (
        "fortinet",
        '<189>date=2025-03-07 time=04:05:06 tz="-0100" logid="1" type="traffic" subtype="local" srcip=2001:db8::1 '
        'srcport=5353 dstip=2001:db8::2 dstport=53 proto=17 action="close" policyname="dns out"',
        expect("2025-03-07T05:05:06", "- close - - udp 2001:db8::1 5353 2001:db8::2 53 - - dns~out"),
    ),
    (
        "paloalto",
        "<14>Mar  7 04:05:06 pa1 1,2025/03/07 04:05:07,001,TRAFFIC,end,1,2025/03/07 04:05:06,198.51.100.7,"
        '203.0.113.9,0.0.0.0,0.0.0.0,"out, all",,,ssh,vsys1,a,b,ae1,ae2,x,2025/03/07 04:05:06,9,1,40112,22,0,0,0x0,'
        "tcp,deny,60,60,0,1",
        expect("2025-03-07T04:05:06", "pa1 drop - ae1 tcp 198.51.100.7 40112 203.0.113.9 22 60 - out,~all"),
    ),
    (
        "mikrotik",
        "2025-03-07T04:05:06.5+00:00 gw firewall,info drop all input: in:ether1 out:(unknown 0), "
        "connection-state:new src-mac 00:11:22:33:44:55, proto TCP (SYN), 198.51.100.7:40112->203.0.113.9:22, "
        "NAT (198.51.100.7:40112->203.0.113.9:22)->10.1.1.1:22, len 60",
        expect(
            "2025-03-07T04:05:06.5", "gw drop in ether1 tcp 198.51.100.7 40112 203.0.113.9 22 60 - drop~all"
        ),
    ),
    (
        "mikrotik",
        "Mar  7 04:05:06 gw firewall,info forward: in:wan out:lan, proto ICMP (type 128, code 0), "
        "2001:db8::1->2001:db8::2, len 64",
        expect("2025-03-07T04:05:06", "gw log forward wan icmp 2001:db8::1 - 2001:db8::2 - 64 - -"),
    ),
    (
        "cef",
        "Mar  7 04:05:06 udm CEF:0|Ubiquiti|UniFi|9|201|Threat Blocked|7|proto=TCP src=198.51.100.7 spt=40112 "
        "dst=203.0.113.9 dpt=22 UNIFIdirection=incoming deviceInboundInterface=Internet 1 UNIFItotalBytes=60 "
        "UNIFIutcTime=2025-03-07T04:05:05.250Z msg=from src=9.9.9.9",
        {
            **expect(
                "2025-03-07T04:05:05.25",
                "udm drop in - tcp 198.51.100.7 40112 203.0.113.9 22 60 - Threat~Blocked",
            ),
            "iface": "Internet 1",
        },
    ),
]


@pytest.mark.parametrize(("dialect", "line", "expected"), SAMPLES)
@pytest.mark.parametrize("ending", ["\n", "\r\n", ""])
def test_a_line_becomes_these_columns(dialect: str, line: str, expected: dict[str, Any], ending: str) -> None:
    rows, parser = parse(dialect, (line + ending).encode())
    assert rows == [{**expected, "raw_format": dialect}], parser.unparsed()


@pytest.mark.parametrize(("dialect", "line", "expected"), SAMPLES)
def test_a_line_tells_its_dialect(dialect: str, line: str, expected: dict[str, Any]) -> None:
    assert detect(line.encode()).dialect == dialect


def test_every_dialect_has_samples() -> None:
    assert {dialect for dialect, _, _ in SAMPLES} == set(DIALECTS)


def test_other_asa_messages_are_kept_with_their_id() -> None:
    line = "Mar  7 04:05:06 asa1 %ASA-6-302020: Built inbound ICMP connection for faddr 198.51.100.7/0\n"
    rows, parser = parse("asa", line.encode() * 3)
    assert rows == []
    assert parser.statistics().reasons == (("ASA-6-302020", 3),)
    assert [kept.reason for kept in parser.unparsed()] == ["ASA-6-302020"] * 3


def test_windows_fields_may_change_their_order_within_a_log() -> None:
    log = (
        "#Version: 1.5\n#Fields: date time action protocol src-ip dst-ip src-port dst-port size\n"
        "2025-03-07 04:05:06 DROP TCP 198.51.100.7 203.0.113.9 1 2 60\n"
        "#Fields: action date time dst-ip src-ip protocol dst-port src-port\n"
        "ALLOW 2025-03-07 04:05:07 203.0.113.9 198.51.100.7 UDP 4 3\n"
        "2025-03-07 04:05:08 INFO-EVENTS-LOST - - - - - -\n"
    )
    rows, parser = parse("windows", log.encode())
    assert [(row["action"], row["src"], row["spt"], row["dpt"]) for row in rows] == [
        ("drop", "198.51.100.7", 1, 2),
        ("allow", "198.51.100.7", 3, 4),
    ]
    assert parser.statistics().skipped == 3


def test_vpc_flow_custom_fields_and_empty_records() -> None:
    log = (
        "flow-direction srcaddr dstaddr start action bytes protocol log-status interface-id\n"
        "egress 10.0.0.1 2001:DB8::1 1741320306 ACCEPT 9 17 OK eni-1\n"
        "- - - 1741320306 - - - NODATA eni-1\n"
    )
    rows, parser = parse("vpcflow", log.encode())
    assert [(row["direction"], row["dst"], row["length"], row["iface"]) for row in rows] == [
        ("out", "2001:db8::1", 9, "eni-1")
    ]
    assert parser.statistics().skipped == 2


def test_lines_that_are_no_firewall_events_are_skipped_not_unparsed() -> None:
    other = "Mar  7 04:05:06 gate kernel: usb 1-1: new high-speed USB device\n\n"
    _, parser = parse("iptables", other.encode())
    assert (parser.statistics().skipped, parser.statistics().unparsed) == (2, 0)
    event = '{"timestamp":"2025-03-07T04:05:06.000007+0100","event_type":"dns","src_ip":"10.0.0.1"}\n'
    _, parser = parse("eve", event.encode())
    assert (parser.statistics().skipped, parser.statistics().unparsed) == (1, 0)
