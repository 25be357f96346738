"""AgentOccam's and SteP's environment wrappers with digests: recorded call sequences against stand-ins with their attributes."""

import pytest

from pagedigest.integrations import agentoccam, step
from pagedigest.integrations.webarena_text import tree_from_webarena_text
from pagedigest.selection import All, Nothing
from pagedigest.session import PageDigest
from region4web.abstraction import abstractor_by_name
from region4web.segmenters import segmenter_by_name

PAGE = """Tab 0 (current): One Stop Market

[1] RootWebArea 'One Stop Market' focused: True
\t[14] banner ''
\t\t[21] link 'My Account'
\t\t[27] textbox 'Search' required: False hasPopup: listbox
\t[1727] main ''
\t\t[1740] button "Add 'Kettle' to cart" disabled: True
\t\t[1741] StaticText 'Price: $12.50 required: True'"""


def digest(selector):
    return PageDigest(segmenter_by_name("landmarks"), abstractor_by_name("role-name"), selector)


class Browser:
    """Stands for ScriptBrowserEnv: what it was told to do, and its page."""

    def __init__(self):
        self.done = []
        self.page = type("Page", (), {"url": "http://shop.example/"})()


class StepWrapper:
    """The attributes and the order of calls of SteP's wrapper."""

    def __init__(self, max_steps=5):
        self.webarena_env = Browser()
        self.obs = {"text": PAGE}
        self.url, self.steps, self.max_steps = "http://shop.example/", 0, max_steps

    def get_objective(self):
        return "Buy a kettle"

    def reset(self):
        self.steps = 0

    def observation(self):
        self.url = self.webarena_env.page.url
        return "\n".join(self.obs["text"].split("\n")[:4])

    def step(self, action):
        self.steps += 1
        if action:
            self.webarena_env.done.append(action)
        return {"done": False}


class OccamWrapper(StepWrapper):
    """AgentOccam's: observations are dicts with a node tree, the text is a pair."""

    def __init__(self):
        super().__init__()
        self.obs = {"text": (PAGE, "tree node"), "image": "pixels"}

    def observation(self):
        return {"text": "pruned", "image": self.obs["image"], "node": "tree node"}


def test_webarena_text_reads_back_with_ids_states_and_quotes():
    tree = tree_from_webarena_text(PAGE, url="http://shop.example/")
    assert [n.id for n in tree.nodes] == ["1", "14", "21", "27", "1727", "1740", "1741"]
    assert tree.nodes[3].states == (("required", False), ("hasPopup", "listbox"))
    assert tree.nodes[5].name == "Add 'Kettle' to cart"
    assert tree.nodes[5].state("disabled") is True
    assert tree.nodes[6].name == "Price: $12.50 required: True"
    assert tree.depth.tolist() == [0, 1, 2, 2, 1, 2, 2]


def test_step_reads_the_digest_of_the_whole_page_and_twice_the_same():
    environment = step.digest_environment_class(StepWrapper, digest(All()))()
    first = environment.observation()
    assert "[1740] button" in first, "the base cuts at four rows, the digest reads the whole page"
    assert environment.observation() == first
    assert len(environment.observations) == 1


def test_an_id_that_was_not_shown_is_refused_and_view_all_shows_it():
    environment = step.digest_environment_class(StepWrapper, digest(Nothing()))()
    assert "[1740]" not in environment.observation()
    environment.step("click [1740]")
    assert environment.webarena_env.done == []
    told = environment.observation()
    assert told.startswith("NOTE [1740] is not shown")
    environment.step("view_all [1]")
    assert environment.webarena_env.done == []
    assert environment.steps == 2
    assert "[1740] button" in environment.observation()
    environment.step("click [1740]")
    assert environment.webarena_env.done == ["click [1740]"]


def test_what_names_no_element_goes_through():
    environment = step.digest_environment_class(StepWrapper, digest(Nothing()))()
    environment.observation()
    for action in ("stop [42]", "note [x]", "go_back", "scroll [down]"):
        environment.step(action)
    assert environment.webarena_env.done == ["stop [42]", "note [x]", "go_back", "scroll [down]"]


def test_agentoccam_keeps_image_and_node_tree():
    environment = agentoccam.digest_environment_class(OccamWrapper, digest(All()))()
    observed = environment.observation()
    assert (observed["image"], observed["node"]) == ("pixels", "tree node")
    assert "[27] textbox 'Search'" in observed["text"]
    assert environment.observation() == observed


def test_a_page_that_cannot_be_read_is_shown_as_the_base_shows_it():
    environment = step.digest_environment_class(StepWrapper, digest(All()))()
    environment.obs = {"text": "\n\n"}
    assert environment.observation().startswith("NOTE the page is shown whole:")


def test_a_reset_starts_another_episode():
    environment = step.digest_environment_class(StepWrapper, digest(Nothing()))()
    environment.observation()
    environment.step("view_all")
    assert "[1740]" in environment.observation()
    environment.reset()
    assert "[1740]" not in environment.observation()


class Actor:
    def get_observation_text(self):
        return PAGE

    def is_valid_action(self, action):
        return True


@pytest.mark.parametrize(
    ("action", "valid"),
    [
        ("view_all", True),
        ("view_region [R4]", True),
        ("click [1740]", True),
        ("click [7]", False),
        ("type [27] [x] [1]", True),
        ("go_back", True),
    ],
)
def test_an_actor_takes_views_and_whole_ids_only(action, valid):
    assert agentoccam.actor_with_views(Actor)().is_valid_action(action) is valid


def test_step_learns_view_all_in_its_list_and_in_every_prompt():
    prompts = {"shopping": {"instruction": "You act.", "examples": []}}
    actions, changed = step.with_view_all(["click", "type"], prompts)
    assert actions == ["click", "type", "view_all"]
    assert "view_all [1]" in changed["shopping"]["instruction"]
    assert prompts["shopping"]["instruction"] == "You act."
    assert step.with_view_all(actions, changed) == (actions, changed)
    with pytest.raises(ValueError, match="no 'instruction'"):
        step.with_view_all([], {"x": {}})
