"""Uses the OpenAI client library against BASE_URL as an application does.

openai_client.py BASE_URL MODEL
Exits with an AssertionError where an answer is not what the library's users rely on.
"""

import sys
import time

import openai

TOKENS = 12
PROMPT = "Where is the nearest harbor?"
MESSAGES = [{"role": "user", "content": PROMPT}]


def check_whole(text, usage, finish_reason):
    assert text.strip(), "no text"
    assert finish_reason == "length", finish_reason
    assert usage.completion_tokens == TOKENS, usage
    assert usage.prompt_tokens > 0, usage
    assert usage.total_tokens == usage.prompt_tokens + TOKENS, usage


def check_stream(chunks, text_of):
    """The text comes in as many pieces as there are tokens, spread over time, the usage last."""
    pieces, times, usage, finish_reason = [], [], None, None
    for chunk in chunks:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            finish_reason = choice.finish_reason or finish_reason
            if text_of(choice):
                pieces.append(text_of(choice))
                times.append(time.monotonic())
    check_whole("".join(pieces), usage, finish_reason)
    assert len(pieces) == TOKENS, pieces
    assert times[-1] - times[0] > 0.05, "the pieces came all at once"


def main(base_url, model):
    client = openai.OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=30)
    assert model in [served.id for served in client.models.list()]

    limits = {"model": model, "max_tokens": TOKENS}
    streamed = {"stream": True, "stream_options": {"include_usage": True}}

    answer = client.chat.completions.create(messages=MESSAGES, **limits)
    check_whole(answer.choices[0].message.content, answer.usage, answer.choices[0].finish_reason)
    chunks = client.chat.completions.create(messages=MESSAGES, **limits, **streamed)
    check_stream(chunks, lambda choice: choice.delta.content)

    answer = client.completions.create(prompt=PROMPT, **limits)
    check_whole(answer.choices[0].text, answer.usage, answer.choices[0].finish_reason)
    chunks = client.completions.create(prompt=PROMPT, **limits, **streamed)
    check_stream(chunks, lambda choice: choice.text)

    try:
        client.chat.completions.create(messages=[], model=model)
        raise AssertionError("an empty chat is no request")
    except openai.BadRequestError as refusal:
        assert refusal.type == "invalid_request_error", refusal


if __name__ == "__main__":
    main(*sys.argv[1:])
