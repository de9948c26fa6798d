"""Says a verdict of Weir's where GitHub shows it: in the job's summary, and as a comment on the pull request.

The comment of the run before is replaced, so that a pull request has one. Variables: VERDICT is the file; NUMBER the pull request's,
empty where there is none; COMMENT `true` or `false`; GITHUB_TOKEN, GITHUB_API_URL, GITHUB_REPOSITORY and GITHUB_STEP_SUMMARY
are GitHub's own. A comment that GitHub refuses, as of a fork whose token may not write, is said and no failure: the
verdict stands in the summary.
"""

import json
import os
import pathlib
import sys
import urllib.error
import urllib.request

MARK = "<!-- weir: verdict -->"
# What GitHub takes.
MOST = 65_000


def main():
    verdict = pathlib.Path(os.environ["VERDICT"])
    if not verdict.is_file():
        print(f"comment.py: there is no verdict in {verdict}: nothing was compared")
        return
    text = verdict.read_text()
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(summary, "a") as file:
            file.write(text)
    number = os.environ.get("NUMBER", "")
    if os.environ.get("COMMENT") != "true" or not number:
        print("comment.py: no comment: " + ("this is no pull request" if not number else "none was asked for"))
        return
    body = f"{MARK}\n{text}"
    if len(body) > MOST:
        body = body[:MOST] + "\n\n(cut off here: verdict.md of the job has all of it)\n"
    comments = f"{os.environ.get('GITHUB_API_URL', 'https://api.github.com')}/repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    try:
        before = ours(f"{comments}/{int(number)}/comments")
        if before is None:
            said = asked("POST", f"{comments}/{int(number)}/comments", {"body": body})
        else:
            said = asked("PATCH", f"{comments}/comments/{before}", {"body": body})
        print(f"comment.py: {said['html_url']}")
    except urllib.error.HTTPError as refused:
        if refused.code not in (401, 403):
            sys.exit(f"comment.py: GitHub answers {refused.code}: {refused.read(500).decode(errors='replace')}")
        print(f"comment.py: GitHub refuses the comment ({refused.code}): the token may not write to pull requests")
    except urllib.error.URLError as away:
        sys.exit(f"comment.py: GitHub cannot be reached: {away.reason}")


def ours(address):
    """The comment of a run before, by its number."""
    page = 1
    while found := asked("GET", f"{address}?per_page=100&page={page}"):
        for comment in found:
            if comment["body"].startswith(MARK):
                return comment["id"]
        page += 1
    return None


def asked(method, address, body=None):
    request = urllib.request.Request(address, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("Accept", "application/vnd.github+json")
    request.add_header("Authorization", f"Bearer {os.environ['GITHUB_TOKEN']}")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
