"""Pages for people: who sees what, and that no other site acts in their name."""

import http.client
import json
import random
import re
from copy import copy
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from urllib.parse import quote, urlencode, urlsplit

import pytest

import tacit
from tacit.custodian.pages import calculator, views
from tacit.custodian.pages.routes import Pages
from tests.custodian.serving import serving, write_smokers

HOSTILE = "<script>alert(1)</script>"
COUNTS = tacit.queries.Counts("smoker")
POLICY = (
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)


class Found(HTMLParser):
    """What a page has that could act: tags with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def forms(self):
        """The fields of each form, by where it is sent to."""
        found, fields = [], {}
        for tag, attributes in self.tags:
            if tag == "form":
                fields = {}
                found.append((attributes, fields))
            elif tag in ("input", "button") and "name" in attributes:
                fields.setdefault(attributes["name"], attributes.get("value", ""))
        return found


class Browser:
    """A browser without scripts: cookies, forms, and what other sites could make it send."""

    def __init__(self, server):
        self.netloc, self.cookies, self.headers = urlsplit(server.url).netloc, {}, {}

    def send(self, path, form=None, method=None, **headers):
        connection = http.client.HTTPConnection(self.netloc, timeout=60)
        cookie = {"Cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())}
        body = form if form is None or isinstance(form, bytes) else urlencode(form)
        given = {"Content-Type": "application/x-www-form-urlencoded"} if form is not None else {}
        method = method or ("GET" if form is None else "POST")
        connection.request(method, path, body, {**cookie, **given, **headers})
        response = connection.getresponse()
        self.status, self.headers = response.status, dict(response.getheaders())
        self.text = response.read().decode()
        connection.close()
        for name, morsel in SimpleCookie(self.headers.get("set-cookie", "")).items():
            self.cookies[name] = morsel.value
        return copy(self)  # what is shown now, whatever is shown later

    def sign_in(self, token):
        assert self.send("/sign-in", {"token": token}).status == 303
        return self

    @property
    def form(self):
        """The secret of this session's forms."""
        return re.search(r'name="form" value="([\w-]+)"', self.send("/data/smokers").text)[1]

    def post(self, path, **fields):
        return self.send(path, {"form": self.form, **fields})


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    more = f'about = "{HOSTILE}"\npolicy = {{ largest_epsilon = 1.0 }}'
    with serving(write_smokers(tmp_path_factory.mktemp("pages"), more)) as started:
        started.officer = started.accounts.add("officer", role="custodian")
        yield started


@pytest.fixture(scope="module")
def ana(server):
    """The token of an analyst who has released something under a name that attacks."""
    token = server.token("ana", epsilon=50)
    wall = tacit.connect(server.url, token)
    wall.release(COUNTS, tacit.Laplace(0.5), name=HOSTILE)
    wall.release(COUNTS, tacit.Gaussian(0.5, 1e-6), name="second")
    steps = tacit.queries.Plan(
        tacit.queries.Steps(3, tacit.Gaussian(noise_multiplier=90.0)), delta=1e-6
    )
    wall.prepay(steps, name="walk")
    return token


def officer(server):
    return Browser(server).sign_in(server.officer)


def kinds(server):
    return [entry["kind"] for entry in server.ledger().entries()]


def shown(server, ana):
    """Every page, as its reader sees it."""
    of_ana, of_officer = Browser(server).sign_in(ana), officer(server)
    name = quote(HOSTILE, safe="")
    for path in ("/", "/data/smokers", f"/data/smokers/release?name={name}", "/data/smokers/plan"):
        yield path, of_ana.send(path)
        if "release" not in path:
            yield path, of_officer.send(path)
    yield "/custody", of_officer.send("/custody")
    yield "/sign-in", Browser(server).send("/sign-in")
    yield "/none", of_ana.send("/data/none")
    yield "verified", of_ana.post("/data/smokers/verify")


def test_who_is_not_signed_in_sees_the_way_in_and_nothing_else(server):
    pages = [route for route in Pages(None).routes() if route.path.startswith(("/data", "/cust"))]
    assert len(pages) >= 12
    for route in pages:
        for method in route.methods:
            path = route.path.replace("{dataset}", "smokers")
            form = {} if method == "POST" else None
            browser = Browser(server).send(path, form, method)
            assert (browser.status, browser.headers["location"]) == (303, "/sign-in"), path
            assert browser.text == ""
    browser = Browser(server)
    browser.cookies["tacit-session"] = "x" * 43
    assert browser.send("/").status == 303


def test_a_session_begins_with_a_token_and_ends_with_it(server):
    token = server.token("bo")
    browser = Browser(server)
    for wrong in ("", "x", token[:-1], f"{token}x"):
        assert browser.send("/sign-in", {"token": wrong}).status == 403
        assert "tacit-session" not in browser.cookies
    browser.sign_in(token)
    cookie = browser.headers["set-cookie"].lower()
    for words in ("httponly", "samesite=strict", "path=/"):
        assert words in cookie
    assert "secure" not in cookie  # over plain HTTP on loopback it would never come back
    assert token not in cookie
    assert browser.send("/").status == 200
    before = dict(browser.cookies)
    browser.sign_in(token)
    assert browser.cookies != before  # a session that was planted is of no use
    stale = Browser(server)
    stale.cookies = before
    assert stale.send("/").status == 303
    browser.send("/sign-out", {})
    browser.cookies = {"tacit-session": before["tacit-session"]}
    assert browser.send("/").status == 303
    browser.sign_in(token)
    server.accounts.revoke("bo")
    assert browser.send("/").status == 303


def test_every_page_has_the_policy_and_nothing_that_it_forbids(server, ana):
    seen = list(shown(server, ana))
    assert len(seen) >= 11
    for path, page in seen:
        assert page.headers["content-security-policy"] == POLICY, path
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        found = Found(page.text)
        assert not {tag for tag, _ in found.tags} & {"script", "style", "iframe", "object", "base"}
        for tag, attributes in found.tags:
            assert not any(name == "style" or name.startswith("on") for name in attributes), tag
            for name in ("href", "src", "action", "formaction"):
                assert attributes.get(name, "/").startswith(("/", "#")), attributes
                assert not attributes.get(name, "/").startswith("//")
    style = Browser(server).send("/style.css")
    assert (style.status, style.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert "url(" not in style.text
    assert "@import" not in style.text


def test_what_others_wrote_is_escaped(server, ana):
    pages = dict(shown(server, ana))
    assert not any(HOSTILE in page.text for page in pages.values())
    escaped = "&lt;script&gt;alert(1)&lt;/script&gt;"
    of_release = next(page for path, page in pages.items() if "/release?" in path)
    for page in (pages["/"], pages["/data/smokers"], of_release):
        assert escaped in page.text
    image = "<img src=x onerror=alert(1)>"
    asked = Browser(server).sign_in(ana).send(f"/data/{quote(image, safe='')}")
    assert asked.status == 403
    assert "&lt;img src=x" in asked.text
    assert image not in asked.text


def test_no_other_site_can_act_for_who_is_signed_in(server, ana):
    """Each form needs the secret of its session, and comes from this site."""
    browser, other = officer(server), officer(server)
    posts = [
        route.path.replace("{dataset}", "smokers")
        for route in Pages(None).routes()
        if "POST" in route.methods and route.path.startswith(("/data", "/cust"))
    ]
    assert len(posts) == 8
    fields = {
        "name": "ana",
        "dataset": "smokers",
        "epsilon": "7",
        "delta": "0",
        "role": "custodian",
        "days": "9",
    }
    before = server.accounts.listed(), kinds(server)
    for path in posts:
        name = "mallory" if path.endswith("/add") else "ana"
        for form in (
            {},
            {"form": ""},
            {"form": "x" * 43},
            {"form": other.form},
            {"form": b"\xff"},
        ):
            assert browser.send(path, {**fields, "name": name, **form}).status == 403, path
        good = {**fields, "name": name, "form": browser.form}
        for headers in (
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
        ):
            assert browser.send(path, good, **headers).status == 403, path
    assert (server.accounts.listed(), kinds(server)) == before
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
        stranger = Browser(server)
        assert stranger.send("/sign-in", {"token": ana}, **headers).status == 403
        assert stranger.cookies == {}
    for body in (b"\xff", b"&".join([b"a=1"] * 60)):
        assert browser.send("/custody/allow", body).status == 400
    too_long = {"form": browser.form, "name": "x" * 70_000}
    assert browser.send("/custody/add", too_long).status == 400
    here = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
    assert browser.send("/data/smokers/verify", {"form": browser.form}, **here).status == 200


def test_an_analyst_sees_what_is_theirs(server, ana):
    server.token("cleo", epsilon=1)
    cleo = Browser(server).sign_in(server.accounts.renew("cleo"))
    page = cleo.send("/data/smokers").text
    assert "second" not in page
    assert "walk" not in page
    assert "a release, discrete" not in page  # nor as what it was asked
    for name in ("second", "ana/second"):
        told = cleo.send(f"/data/smokers/release?name={quote(name, safe='')}")
        assert (told.status, "There is no release" in told.text) == (400, True)
    for path in ("/custody",):
        assert cleo.send(path).status == 403
    before = server.accounts.listed()
    for path in ("add", "renew", "revoke", "allow", "decide", "resume"):
        assert cleo.post(f"/custody/{path}", name="cleo", dataset="smokers").status == 403
    assert server.accounts.listed() == before
    stranger = Browser(server).sign_in(server.accounts.add("dan"))
    assert "No data set is open to you" in stranger.send("/").text
    assert stranger.send("/data/smokers").status == 403
    seen = officer(server).send("/data/smokers").text
    assert "ana/second" in seen


def test_a_release_is_shown_with_its_certificate(server, ana):
    browser = Browser(server).sign_in(ana)
    page = browser.send("/data/smokers/release?name=second")
    stored = tacit.connect(server.url, ana).release(
        COUNTS, tacit.Gaussian(0.5, 1e-6), name="second"
    )
    for cell in stored.to_frame()["estimate"]:
        assert f"{cell:.6g}" in page.text
    assert "It cost epsilon 0.5" in page.text
    assert "A worked example" in page.text
    release = browser.send("/data/smokers/release.json?name=second")
    assert "attachment" in release.headers["content-disposition"]
    assert tacit.Release.from_json(release.text).integers.tolist() == stored.integers.tolist()
    told = json.loads(browser.send("/data/smokers/release.json?certificate=1&name=second").text)
    mark = tacit.Certificate.from_dict(told).ledger
    assert server.ledger().verify(mark).seq >= mark.entry
    assert "holds, and every charge" in browser.post("/data/smokers/verify").text


def test_a_question_beyond_the_policy_is_decided_on_the_record(server):
    token, browser = server.token("eve", epsilon=400), officer(server)
    wall = tacit.connect(server.url, token)
    large, larger = tacit.Laplace(3), tacit.Laplace(300)

    def waiting():
        found = Found(browser.send("/custody").text).forms()
        return [fields for tag, fields in found if tag.get("action") == "/custody/decide"]

    for how in (large, larger):
        with pytest.raises(tacit.errors.PolicyError):
            wall.release(COUNTS, how, name=f"of {how.epsilon}")
    first, second = waiting()
    assert "of 3" in browser.text
    assert "&#34;type&#34;: &#34;Counts&#34;" in browser.text  # what is asked, not only its price
    assert "epsilon 300" in browser.text
    assert "may work together" in browser.text  # allowances are no guarantees
    before = kinds(server)
    refused = browser.send("/custody/decide", {**first, "decision": "approve", "reason": " "})
    assert (refused.status, "Expected a reason" in refused.text) == (400, True)
    assert kinds(server) == before
    approve = {"decision": "approve", "reason": HOSTILE}
    for each in (first, second):
        assert browser.send("/custody/decide", {**each, **approve}).status == 303
        assert browser.send("/custody/decide", {**each, **approve}).status == 400  # once
    assert waiting() == []
    assert kinds(server) == [*before, "approved", "approved"]
    assert server.ledger().entries()[-1]["by"] == "officer"
    assert "approved by officer: &lt;script&gt;" in browser.send("/data/smokers").text
    assert wall.release(COUNTS, large, name="of 3").n == 400
    with pytest.raises(tacit.OverBudgetError):  # never beyond the budget
        wall.release(COUNTS, larger, name="of 300")
    with pytest.raises(tacit.errors.PolicyError):
        wall.release(COUNTS, tacit.Laplace(2), name="another")
    (third,) = waiting()
    browser.send("/custody/decide", {**third, "decision": "decline"})
    assert waiting() == []
    assert kinds(server).count("approved") == 2


def test_accounts_are_made_allowed_renewed_and_revoked(server):
    browser = officer(server)
    made = browser.post("/custody/add", name="fay", role="analyst", days="5")
    token = re.search(r"tacit_[0-9a-f]+_[\w-]+", made.text)[0]
    assert token not in browser.send("/custody").text  # shown once
    assert Browser(server).sign_in(token).send("/data/smokers").status == 403
    browser.post("/custody/allow", name="fay", dataset="smokers", epsilon="0.25", delta="")
    assert tacit.connect(server.url, token).remaining.epsilon == tacit.Budget("0.25").epsilon
    assert "smokers: epsilon 0.25" in browser.send("/custody").text
    new = re.search(r"tacit_\w+", browser.post("/custody/renew", name="fay").text)[0]
    assert server.accounts.account_of(token) is None
    assert new
    browser.post("/custody/revoke", name="fay")
    assert server.accounts.listed()[-1].expires is None or "fay" in str(server.accounts.listed())
    for path, fields in (
        ("add", {"name": "fay"}),
        ("add", {"name": "Not A Name", "role": "analyst"}),
        ("add", {"name": "gus", "role": "king"}),
        ("add", {"name": "gus", "role": "analyst", "days": "x"}),
        ("allow", {"name": "fay", "dataset": "none", "epsilon": "1"}),
        ("allow", {"name": "fay", "dataset": "smokers", "epsilon": "-1"}),
        ("allow", {"name": "nobody", "dataset": "smokers", "epsilon": "1"}),
        ("renew", {"name": "nobody"}),
        ("resume", {"dataset": "smokers"}),
    ):
        refused = browser.post(f"/custody/{path}", **fields)
        assert (refused.status, "This was not done" in refused.text) == (400, True), (path, fields)


def test_a_stopped_data_set_says_so_and_answers_again(server, ana):
    server.accounts.stop("smokers", "a test")
    browser = officer(server)
    assert "Stopped since" in browser.send("/custody").text
    assert "Stopped until" in Browser(server).sign_in(ana).send("/").text
    browser.post("/custody/resume", dataset="smokers")
    assert "Stopped" not in browser.send("/custody").text


def test_the_calculator_spends_nothing_and_knows_the_price(server, ana):
    browser, before = Browser(server).sign_in(ana), kinds(server)
    asked = {"column": "smoker", "noise": "laplace", "epsilon": "0.25", "delta": "", "units": "400"}
    wide = browser.post("/data/smokers/plan", **asked).text
    assert "It would cost epsilon 0.25, delta 0" in wide
    narrow = browser.post("/data/smokers/plan", **{**asked, "epsilon": "5"}).text

    def width(page):
        return float(re.search(r'<th scope="row">p</th><td class="number">([\d.e-]+)', page)[1])

    assert width(narrow) < width(wide)
    gaussian = {**asked, "column": "age", "noise": "gaussian", "delta": "1e-6"}
    assert "mean" in browser.post("/data/smokers/plan", **gaussian).text
    for wrong in (
        {"column": "none"},
        {"epsilon": ""},
        {"epsilon": "-1"},
        {"epsilon": "nan"},
        {"units": "x"},
        {"units": "10000000"},
        {"noise": "gaussian", "delta": "2"},
    ):
        page = browser.post("/data/smokers/plan", **{**asked, **wrong})
        assert page.status == 200
        assert 'class="warning" role="alert"' in page.text, wrong
        assert "It would cost" not in page.text
    assert kinds(server) == before


def test_one_calculation_at_a_time():
    schema = tacit.Schema(tacit.Categorical("a", ["x", "y"]), neighbours="replace_one")
    form = {"column": "a", "noise": "laplace", "epsilon": "1", "units": "50"}
    with calculator._one, pytest.raises(tacit.errors.QueryError, match="busy"):
        calculator.expected(schema, form)
    assert calculator.expected(schema, form).rows


def test_a_meter_and_a_chart_say_what_the_ledger_says(tmp_path):
    path = tmp_path / "l.ledger"
    data = {"smoker": ["yes", "no"] * 9}
    schema = tacit.Schema(tacit.Categorical("smoker", ["no", "yes"]), neighbours="replace_one")
    wall = tacit.Wall(data, schema, budget=tacit.Budget(2), ledger=path)
    assert views.meter(tacit.Ledger(path).entries()).share == 0
    for _ in range(3):
        wall.release(COUNTS, tacit.Laplace("0.5"))
    entries = tacit.Ledger(path).entries()
    meter, chart = views.meter(entries), views.chart(entries)
    assert (meter.spent, meter.limit, meter.percent) == ("1.5", "2", "75 %")
    points = [tuple(map(float, point.split(","))) for point in chart.spent.split()]
    top = float(chart.limit.split()[0].split(",")[1])
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    bottom = points[0][1]
    assert (bottom - points[-1][1]) / (bottom - top) == pytest.approx(0.75, abs=1e-3)
    tacit.Ledger(path).raise_budget(tacit.Budget(4), "more")
    assert views.meter(tacit.Ledger(path).entries()).percent == "37.5 %"


def test_no_form_and_no_query_makes_it_fail(server, ana):
    """Whatever is sent, a page or a refusal comes back, and the ledger stays as it is."""
    before, rng = kinds(server), random.Random(7)
    browser = officer(server)
    secret, texts = browser.form, ["", "x", "ana", "smokers", HOSTILE, "\x00", "9" * 400, "1e999"]
    texts += ["nan", "-1", "é" * 50, "../../etc/passwd", "approve", "%", "{{ 7 * 7 }}", "0" * 64]
    keys = ["name", "dataset", "epsilon", "delta", "role", "days", "decision", "question"]
    keys += ["account", "reason", "column", "noise", "units", "certificate"]
    routes = [route for route in Pages(None).routes() if "sign" not in route.path]
    answered = set()
    for _ in range(300):
        route = rng.choice(routes)
        fields = {key: rng.choice(texts) for key in rng.sample(keys, 6)}
        dataset = quote(rng.choice(["smokers", *texts]), safe="") or "smokers"
        path = f"{route.path.replace('{dataset}', dataset)}?{urlencode(fields)}"
        form = {**fields, "form": secret} if "POST" in route.methods else None
        page = browser.send(path, form)
        answered.add(page.status)
        assert page.status in (200, 303, 400, 402, 403, 404, 503), (path, form, page.text)
        assert "Traceback" not in page.text
        assert HOSTILE not in page.text
        assert ">49<" not in page.text  # no template of theirs is rendered
    assert {200, 303, 400, 403} <= answered
    assert kinds(server) == before
