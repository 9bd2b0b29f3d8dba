"""Error codes of the family `engine`."""

from __future__ import annotations

from gpugoblin.error_codes.spec import ErrorCode

__all__ = ["CODES"]

CODES: dict[str, ErrorCode] = {
    "engine_start_failed": ErrorCode(
        what="The engine could not be started: {reason}.",
        next_step="Check that the interpreter {python} exists and may be run by this user.",
    ),
    "engine_silent": ErrorCode(
        what="The engine did not answer within {limit_s:.1f} s while it was {doing}.",
        next_step="It was ended; start a new one, and look at its last words: {stderr}",
    ),
    "engine_died": ErrorCode(
        what="The engine ended by itself (exit status {status}) while it was {doing}.",
        next_step="Start a new one, and look at its last words: {stderr}",
    ),
    "engine_lied": ErrorCode(
        what="The engine broke the protocol: {reason}.",
        next_step="It was ended and none of its results may be used; start a new one.",
    ),
    "engine_overran": ErrorCode(
        what="The engine computed task {task} for more than {limit_s:.1f} s.",
        next_step="It was ended; check the prediction of the task, or give it to another card.",
    ),
    "engine_over_memory": ErrorCode(
        what="The engine took {used_bytes} bytes of private memory; {limit_bytes} are allowed.",
        next_step="It was ended; raise the memory of the engine or send smaller tasks.",
    ),
    "engine_busy": ErrorCode(
        what="The engine has {queued} tasks queued already, which is the most it takes.",
        next_step="Wait for an event before submitting the next task.",
    ),
    "engine_warms": ErrorCode(
        what="The engine only warms up, so it takes no task of a lab.",
        next_step="Start another engine for tasks.",
    ),
    "engine_works": ErrorCode(
        what="The engine computes tasks of labs, so nothing that it compiled is kept.",
        next_step="Start an engine that warms up, and export from that one.",
    ),
    "engine_closed": ErrorCode(
        what="The engine is not running any more, so it takes no {request}.",
        next_step="Start a new engine.",
    ),
    "engine_stopped": ErrorCode(
        what="The engine was ended on request while it was {doing}.",
        next_step="Start a new engine when the card may be used again.",
    ),
    "engine_message_malformed": ErrorCode(
        what="A message between engine and parent is malformed: {reason}.",
        next_step="Check that both sides come from one build.",
    ),
    "engine_message_too_large": ErrorCode(
        what="A message between engine and parent has {size} bytes; at most {limit} are allowed.",
        next_step="Send the graph through the input arena, or use fewer inputs and outputs.",
    ),
    "arena_full": ErrorCode(
        what="The arena of {size_bytes} bytes has no free stretch of {wanted_bytes} bytes.",
        next_step="Free a slot first, or make the arena larger.",
    ),
    "arena_slot_unknown": ErrorCode(
        what="The slot at offset {offset} with {nbytes} bytes is not one that is in use.",
        next_step="Use the slots that the arena gave, and free each of them once.",
    ),
    "arena_size_invalid": ErrorCode(
        what="An arena or slot of {size_bytes} bytes cannot be made.",
        next_step="Ask for a positive size below {limit_bytes} bytes.",
    ),
    "does_not_fit": ErrorCode(
        what="The task needs {needed_bytes} bytes of private memory, the engine has "
        "{memory_bytes}.",
        next_step="Give the engine more memory, or split the task into smaller ones.",
    ),
    "does_not_fit_at_once": ErrorCode(
        what="A tensor of the task takes {needed_bytes} bytes, more than the card's driver "
        "allocates at once.",
        next_step="Split the task into smaller ones, so that its tensors are smaller.",
    ),
    "task_refused": ErrorCode(
        what="The engine refused the task before it began: {reason}.",
        next_step="Check the graph and the slots of the task against the engine's catalog.",
    ),
    "task_failed": ErrorCode(
        what="The task failed at step {node} of its graph: {reason}.",
        next_step="Check the values of the inputs that this step reads.",
    ),
    "kernel_missing": ErrorCode(
        what="The backend {backend} lacks kernels for {missing}, or has them for {unknown}.",
        next_step="Install the engine and the catalog from one build.",
    ),
    "card_missing": ErrorCode(
        what="The backend {backend} finds no card: {reason}.",
        next_step="Install the card's driver with Vulkan 1.2 or later, and name a card that is "
        "there.",
    ),
    "card_listing_failed": ErrorCode(
        what="The graphics driver {driver} does not say which cards it has: {reason}.",
        next_step="Reinstall or upgrade that driver and the loader (sudo apt install libvulkan1); "
        "its cards are not lent until it answers.",
    ),
    "card_driver_silent": ErrorCode(
        what="NVIDIA's module has a card, but its Vulkan driver {driver} shows none.",
        next_step="Install what that driver opens (sudo apt install libegl1), and see that "
        "`nvidia-smi` shows the card.",
    ),
    "card_package_missing": ErrorCode(
        what="Graphics drivers are installed, but not the Python package {package} that asks them.",
        next_step="Install it: pip install 'gpugoblin[app,vulkan]'. All else is lent without it.",
    ),
    "card_driver_missing": ErrorCode(
        what="The graphics driver {driver} cannot be given to an engine: {reason}.",
        next_step="Install the driver's Vulkan part: sudo apt install mesa-vulkan-drivers (AMD, "
        "Intel, software), or the package of NVIDIA's driver with libGLX_nvidia.so.0 and libegl1.",
    ),
    "card_node_missing": ErrorCode(
        what="The card {card} has no device node {node} that this user may open.",
        next_step="For AMD and Intel: sudo usermod -aG render USER and log in again; for NVIDIA: "
        "sudo nvidia-modprobe -u -c 0.",
    ),
    "card_unsuited": ErrorCode(
        what="The card {card} lacks {missing}.",
        next_step="Install a newer driver, or lend another card.",
    ),
    "card_memory": ErrorCode(
        what="The card has no memory left for {doing}.",
        next_step="Close other programs that use the card, or allow a smaller share of its memory.",
    ),
    "card_lost": ErrorCode(
        what="The card stopped answering while {doing}.",
        next_step="Start a new engine; if it happens again, look at the driver's log.",
    ),
    "card_kernel_refused": ErrorCode(
        what="{count} of the kernels for this card are not used any more with {driver}: the card "
        "was lost each time while they ran ({kernels}).",
        next_step="The rest is lent as before. With another driver version they are tried again.",
    ),
    "card_lied": ErrorCode(
        what="What computes through {driver} gives a wrong answer to a task whose answer is known "
        "({case}, element {element}).",
        next_step="It is not lent for an hour and then asked again. Undo overclocking, look at its "
        "temperature, install another driver version.",
    ),
    "card_broken": ErrorCode(
        what="What computes through {driver} fails at a task whose answer is known ({case}): "
        "{reason}",
        next_step="It is not lent for an hour and then asked again. Install another driver "
        "version, and see what the system's log says about it.",
    ),
    "card_failed": ErrorCode(
        what="The driver of the card failed while {doing}: {result}.",
        next_step="Start a new engine; if it happens again, install another driver version.",
    ),
}
