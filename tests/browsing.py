"""A page in a real browser: what it asked for, what it said, and its tags without one."""

import json
from html.parser import HTMLParser


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def forget(browser):
    """Start with empty logs."""
    for log in ("browser", "performance"):
        browser.get_log(log)


def assert_quiet(browser, addresses):
    """No word on the console, no request but for the pages."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"}
    assert {url for url in asked if not url.startswith("data:")} == {*addresses}
    assert browser.get_log("browser") == []


def keys(browser, *pressed):
    from selenium.webdriver import ActionChains

    ActionChains(browser).send_keys(*pressed).perform()
