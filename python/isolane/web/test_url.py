from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolane.errors import IsolaneError, MeasurementError, NotSupported, SpecError
from isolane.web.url import read_url, server_of


@pytest.mark.parametrize(
    ("text", "host", "path", "server"),
    [
        ("http://192.0.2.1", "192.0.2.1", "/", "192.0.2.1:80"),
        ("http://192.0.2.1:8080/a?b=c", "192.0.2.1:8080", "/a?b=c", "192.0.2.1:8080"),
        ("http://[2001:db8::1]/x", "[2001:db8::1]", "/x", "[2001:db8::1]:80"),
        ("HTTP://[2001:DB8::1]:81", "[2001:DB8::1]:81", "/", "[2001:db8::1]:81"),
        ("http://192.0.2.1/?q", "192.0.2.1", "/?q", "192.0.2.1:80"),
        ("http://192.0.2.1/a%20b#part", "192.0.2.1", "/a%20b", "192.0.2.1:80"),
        ('http://192.0.2.1/a"b|c', "192.0.2.1", "/a%22b%7Cc", "192.0.2.1:80"),
    ],
)
def test_a_url_names_server_and_object(text: str, host: str, path: str, server: str) -> None:
    url = read_url(text)
    assert (url.host, url.path, server_of(url)) == (host, path, server)
    assert str(url) == f"http://{host}{path}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "192.0.2.1",
        "//192.0.2.1/",
        "ftp://192.0.2.1/",
        "http://",
        "http:///x",
        "http://user:word@192.0.2.1/",
        "http://192.0.2.1:0/",
        "http://192.0.2.1:65536/",
        "http://192.0.2.1:x/",
        "http://[2001:db8::1/",
        "http://192.0.2.1/a b",
        "http://192.0.2.1/a\r\nHost: b",
        "http://192.0.2.1/\N{EURO SIGN}",
    ],
)
def test_what_is_no_url_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="accepted: "):
        read_url(text)


def test_what_is_not_supported_is_told_so() -> None:
    with pytest.raises(NotSupported, match="over TLS are not supported; accepted: http://"):
        read_url("https://192.0.2.1/")


def test_a_name_without_an_address_is_told() -> None:
    with pytest.raises(MeasurementError, match=r"no-such-host\.invalid: "):
        server_of(read_url("http://no-such-host.invalid/"))
    with pytest.raises(MeasurementError, match="not a name that can be looked up"):
        server_of(read_url(f"http://{'a' * 300}.invalid/"))
    with pytest.raises(SpecError, match="needs a zone"):
        server_of(read_url("http://[fe80::1%1]/"))


@given(st.text(max_size=40))
def test_no_request_has_a_second_line(text: str) -> None:
    try:
        url = read_url(f"http://192.0.2.1/{text}")
    except IsolaneError:
        return
    assert url.path.isascii()
    assert url.path.isprintable()
    assert " " not in url.path + url.host
