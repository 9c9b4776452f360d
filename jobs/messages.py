"""The messages and tools of a chat, as clients send them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_TOOL_NAME = 64


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TextPart(_Strict):
    type: Literal["text"]
    text: str


Content = str | list[TextPart]


def text_of(content: Content | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text for part in content)


class ChatMessage(_Strict):
    role: Literal["system", "developer", "user"]
    content: Content
    name: str | None = None

    @property
    def text(self) -> str:
        return text_of(self.content)


class CalledFunction(_Strict):
    name: str
    arguments: str


class ToolCall(_Strict):
    id: str
    type: Literal["function"]
    function: CalledFunction


class AssistantMessage(_Strict):
    role: Literal["assistant"]
    content: Content | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: Annotated[list[ToolCall], Field(min_length=1)] | None = None

    @property
    def text(self) -> str:
        return text_of(self.content)

    @model_validator(mode="after")
    def _says_or_calls(self) -> "AssistantMessage":
        if self.content is None and self.tool_calls is None:
            raise ValueError("an assistant's message has content, or tool_calls, or both")
        return self


class ToolMessage(_Strict):
    role: Literal["tool"]
    content: Content
    tool_call_id: str
    name: str | None = None

    @property
    def text(self) -> str:
        return text_of(self.content)


Message = Annotated[ChatMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


class Function(_Strict):
    name: Annotated[str, Field(pattern=rf"^[A-Za-z0-9_-]{{1,{MAX_TOOL_NAME}}}$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(_Strict):
    type: Literal["function"]
    function: Function
