"""BrowserGym: its observations through a module, its action set with views; with MiniWoB installed, eleven tasks solved by shown ids alone."""

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

from pagedigest.integrations.browsergym import DigestObservations, goal_text, last_action_of
from pagedigest.observation import Action
from pagedigest.selection import All, Nothing
from pagedigest.session import PageDigest
from region4web.abstraction import abstractor_by_name
from region4web.segmenters import segmenter_by_name

HAS_BROWSERGYM = importlib.util.find_spec("browsergym") is not None and importlib.util.find_spec("browsergym.core") is not None
needs_browsergym = pytest.mark.skipif(
    not HAS_BROWSERGYM, reason="browsergym-core is not installed (it pins an old playwright: an environment of its own)"
)


def cdp(node_id, role, name="", bid=None, children=(), **properties):
    node = {"nodeId": node_id, "ignored": False, "role": {"value": role}, "name": {"value": name}, "childIds": list(children),
            "properties": [{"name": k, "value": {"value": v}} for k, v in properties.items()]}  # fmt: skip
    return node | ({"browsergym_id": bid} if bid else {})


def observation(**changed):
    nodes = [
        cdp("1", "RootWebArea", "Shop", children=["2", "5"], focused=True),
        cdp("2", "main", "", "12", ["3", "4"]),
        cdp("3", "StaticText", "Kettle"),
        cdp("4", "button", "Add to cart", "14"),
        cdp("5", "contentinfo", "", "20", ["6"]),
        cdp("6", "link", "Imprint", "21"),
    ]
    given = {"axtree_object": {"nodes": nodes}, "extra_element_properties": {"14": {"bbox": [1, 2, 3, 4], "visibility": 1.0, "clickable": True}},
             "goal_object": ({"type": "text", "text": "Buy a kettle"},), "url": "http://shop.example/", "open_pages_titles": ("Shop",),
             "active_page_index": [0], "last_action": "", "last_action_error": ""}  # fmt: skip
    return given | changed


def digested(selector):
    return DigestObservations(PageDigest(segmenter_by_name("landmarks"), abstractor_by_name("role-name"), selector))


def test_the_digest_takes_the_place_of_axtree_txt_and_only_bids_are_printed():
    observations = digested(All())
    given = observations.preprocess(observation(axtree_txt="the whole tree"))
    assert "[14] button 'Add to cart'" in given["axtree_txt"]
    assert given["axtree_full_txt"] == "the whole tree"
    assert set(re.findall(r"\[(\w+)\]", given["axtree_txt"])) == set(observations.current.shown) <= {"12", "14", "20", "21"}
    assert observations.stats["obs_tokens"] > 0
    assert all(isinstance(v, float) for v in observations.stats.values())
    assert "Add to cart" in observations.html_page()


def test_a_view_as_an_action_of_the_environment_shows_the_page_at_the_next_step():
    observations = digested(Nothing())
    assert "[14]" not in observations.preprocess(observation())["axtree_txt"]
    shown = observations.preprocess(observation(last_action="view_all()"))["axtree_txt"]
    assert "[14] button" in shown


def test_a_view_as_an_inner_turn_takes_no_step():
    observations = digested(Nothing())
    observations.preprocess(observation())
    assert "[14] button" in observations.view("view_all()").text


def test_a_page_that_cannot_be_read_is_shown_whole_and_counted(caplog):
    observations = digested(All())
    given = observations.preprocess(observation(axtree_object={"nodes": []}, axtree_txt="\t[3] button 'Go'"))
    assert given["axtree_txt"].startswith("NOTE the page is shown whole")
    assert observations.current.shown == ("3",)
    assert observations.stats["obs_unread_pages"] == 1
    assert "shown whole" in caplog.text


def test_another_goal_or_a_reset_begins_another_episode():
    observations = digested(Nothing())
    observations.preprocess(observation())
    observations.preprocess(observation(last_action="view_all()"))
    assert "[14]" not in observations.preprocess(observation(goal_object=({"type": "text", "text": "Read the imprint"},)))["axtree_txt"]
    observations.reset()
    assert observations.current is None


def test_the_goal_is_read_without_the_answer_format():
    verified = 'How many orders are there?\n\n---\n{"task_type": "RETRIEVE"}'
    assert (
        goal_text({"goal_object": ({"type": "text", "text": verified}, {"type": "image_url", "image_url": "x"})})
        == "How many orders are there?"
    )
    assert goal_text({"goal": "Legacy"}) == "Legacy"


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("", None),
        ("click('a12')", Action("click('a12')", "a12")),
        ("fill('3', 'x')\nclick('4')", Action("click('4')", "4")),
        ("noop()\nview_region('R4')", Action("view_region('R4')")),
        ("send_msg_to_user('[3]')", Action("send_msg_to_user('[3]')", "[3]")),
    ],
)
def test_the_last_action_is_read_from_what_the_agent_wrote(text, action):
    assert last_action_of({"last_action": text}) == action


@needs_browsergym
def test_the_action_set_knows_the_views_in_every_form():
    from pagedigest.integrations.browsergym import action_set_with_views

    actions = action_set_with_views(subsets=["bid"])
    assert "view_region('R4')" in actions.describe(with_long_description=True, with_examples=True)
    assert "def view_all" in actions.to_python_code("view_all()")
    names = {tool["function"]["name"] if "function" in tool else tool["name"] for tool in actions.to_tool_description()}
    assert {"view_all", "view_region", "find", "click"} <= names


def shown(observation, role, name=None):
    """Ids of the digest's lines with this role and name, in order: the policy sees nothing else."""
    pattern = rf"^\t*\[(\w+)\] {role} (?:'([^']*)'|\"([^\"]*)\")"
    lines = re.findall(pattern, observation["axtree_txt"], re.MULTILINE)
    return [key for key, single, double in lines if name is None or (single or double) == name]


def quoted(goal):
    return re.findall(r'"([^"]*)"', goal)


def click(key):
    return f"click('{key}')"


def policies():
    """Task -> a generator of actions, given the digested observation of each step."""

    def click_button(obs):
        yield click(shown(obs, "button", quoted(goal_text(obs))[0])[0])

    def click_test(obs):
        yield click(shown(obs, "button")[0])

    def click_link(obs):
        yield click(next(k for role in ("link", "clickable", "generic", "StaticText") for k in shown(obs, role, quoted(goal_text(obs))[0])))

    def enter_text(obs):
        yield f"fill('{shown(obs, 'textbox')[0]}', {quoted(goal_text(obs))[0]!r})"
        yield click(shown(obs, "button", "Submit")[0])

    def click_checkboxes(obs):
        wanted = re.search(r"Select (.*) and click Submit", goal_text(obs))[1]
        for name in [] if wanted == "nothing" else wanted.split(", "):
            yield click(shown(obs, "checkbox", name)[0])
        yield click(shown(obs, "button", "Submit")[0])

    def click_option(obs):
        yield click(shown(obs, "radio", re.search(r"Select (.*) and click", goal_text(obs))[1])[0])
        yield click(shown(obs, "button", "Submit")[0])

    def choose_list(obs):
        yield f"select_option('{shown(obs, 'combobox')[0]}', {re.search('Select (.*) from the list', goal_text(obs))[1]!r})"
        yield click(shown(obs, "button", "Submit")[0])

    def login_user(obs):
        user, password = quoted(goal_text(obs))
        boxes = shown(obs, "textbox")
        yield f"fill('{boxes[0]}', {user!r})"
        yield f"fill('{boxes[1]}', {password!r})"
        yield click(shown(obs, "button", "Login")[0])

    def click_dialog(obs):
        yield click(shown(obs, "button", "Close")[0])

    def focus_text(obs):
        yield click(shown(obs, "textbox")[0])  # MiniWoB's action subset has no focus()

    return {"click-button": click_button, "click-test": click_test, "click-test-2": lambda obs: iter([click(shown(obs, "button", "ONE")[0])]), "click-link": click_link,
            "enter-text": enter_text, "click-checkboxes": click_checkboxes, "click-option": click_option, "choose-list": choose_list,
            "login-user": login_user, "click-dialog": click_dialog, "focus-text": focus_text}  # fmt: skip


def miniwob_pages():
    spec = importlib.util.find_spec("miniwob")
    return Path(spec.origin).parent / "html" / "miniwob" if spec and spec.origin else None


def on_miniwob(test):
    """Marks of a test that needs BrowserGym and MiniWoB's pages."""
    absent = importlib.util.find_spec("browsergym.miniwob") is None if HAS_BROWSERGYM else True
    marks = (
        needs_browsergym,
        pytest.mark.optional,
        pytest.mark.browser,
        pytest.mark.slow,
        pytest.mark.skipif(absent, reason="browsergym-miniwob is not installed"),
        pytest.mark.skipif(miniwob_pages() is None, reason="the MiniWoB pages are not installed: pip install --no-deps miniwob==1.1.0"),
    )
    for mark in marks:
        test = mark(test)
    return test


@on_miniwob
@pytest.mark.parametrize("inner_views", [True, False])
def test_a_view_is_an_inner_turn_or_a_step_of_the_environment(system_browser, monkeypatch, inner_views):
    monkeypatch.setenv("MINIWOB_URL", f"file://{miniwob_pages()}/")
    import browsergym.miniwob  # noqa: F401
    import gymnasium as gym

    from pagedigest.integrations.browsergym import DigestAgent

    def policy(obs):
        wanted = shown(obs, "button", "ONE")
        return click(wanted[0]) if wanted else "view_all()"

    module = PageDigest(segmenter_by_name("landmarks"), abstractor_by_name("role-name"), Nothing())
    agent = DigestAgent(module, policy, inner_views=inner_views, subsets=["miniwob_all"])
    environment = gym.make("browsergym/miniwob.click-test-2", action_mapping=agent.action_set.to_python_code, headless=True)
    try:
        obs, _ = environment.reset(seed=3)
        steps, views, reward = 0, 0.0, 0.0
        for _ in range(3):
            action, info = agent.get_action(agent.obs_preprocessor(obs))
            views += info["stats"]["obs_inner_views"]
            obs, reward, done, _, _ = environment.step(action)
            assert not obs["last_action_error"]
            steps += 1
            if done:
                break
    finally:
        environment.close()
    assert reward == 1.0
    assert (steps, views) == ((1, 1.0) if inner_views else (2, 0.0))


@on_miniwob
def test_eleven_miniwob_tasks_are_solved_by_ids_of_the_digest(system_browser, monkeypatch, capsys):
    monkeypatch.setenv("MINIWOB_URL", f"file://{miniwob_pages()}/")
    import browsergym.miniwob  # noqa: F401
    import gymnasium as gym

    from pagedigest.integrations.browsergym import action_set_with_views
    from pagedigest.integrations.playwright import packaged_digest

    observations = DigestObservations(packaged_digest(budget_tokens=500))
    actions = action_set_with_views(subsets=["miniwob_all"])
    rewards, tokens, full = {}, 0.0, 0.0
    for name, policy in policies().items():
        environment = gym.make(f"browsergym/miniwob.{name}", action_mapping=actions.to_python_code, headless=True)
        try:
            obs, _ = environment.reset(seed=3)
            observations.reset()
            current = {}
            current.update(observations.preprocess(obs))
            reward = 0.0
            for action in policy(current):
                tokens, full = tokens + observations.stats["obs_tokens"], full + observations.stats["obs_full_tokens"]
                target = re.match(r"\w+\('(\w+)'", action)
                assert target is None or target[1] in observations.current.shown, f"{name}: {action} acts on what was not shown"
                obs, reward, done, _, _ = environment.step(action)
                current.clear()
                current.update(observations.preprocess(obs))
                if done:
                    break
            rewards[name] = reward
        finally:
            environment.close()
    with capsys.disabled():
        print(f"\nMiniWoB: {rewards}; digests {tokens:.0f} tokens, whole trees {full:.0f}", file=sys.stderr)
    assert len(rewards) == 11
    assert set(rewards.values()) == {1.0}, rewards
    assert os.environ["MINIWOB_URL"]
