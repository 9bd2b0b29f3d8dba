"""Error codes of the family `client`: the researcher's session, files, captures and commands."""

from __future__ import annotations

from gpugoblin.error_codes.spec import ErrorCode

__all__ = ["CODES"]

_CAPTURE: dict[str, ErrorCode] = {
    "dtype_refused": ErrorCode(
        what="{line}: {subject} has dtype {dtype}; the dtypes here are float32, int8, int16, "
        "int32, int64, uint8 and bool, float16 and bfloat16 for storage; nothing is rounded in "
        "silence.",
        next_step="{fix}",
    ),
    "dtypes_mixed": ErrorCode(
        what="{line}: {operator} of {operands}: {cause}.",
        next_step="{fix}",
    ),
    "shapes_differ": ErrorCode(
        what="{line}: {operator} of {operands}: {cause}.",
        next_step="{fix}",
    ),
    "argument_refused": ErrorCode(
        what="{line}: {operator} of {operands}: {cause}.",
        next_step="{fix}",
    ),
    "function_refused": ErrorCode(
        what="{line}: {function} cannot be said here: {reason}.",
        next_step="{fix}",
    ),
    "gradient_refused": ErrorCode(
        what="{line}: there is no gradient of this: {cause}.",
        next_step="{fix}",
    ),
    "model_malformed": ErrorCode(
        what="{line}: {name} is no model that can be read: {reason}.",
        next_step="Export it again, and check it with onnx.checker; nothing was sent.",
    ),
    "model_refused": ErrorCode(
        what="{line}: the node {node} cannot be said: {cause}.",
        next_step="{fix}",
    ),
    "extra_missing": ErrorCode(
        what="This needs the package {package}, which is not installed.",
        next_step="Install the extra: pip install 'gpugoblin[{extra}]'",
    ),
    "index_refused": ErrorCode(
        what="{line}: indexing {operands} with {index}: {cause}.",
        next_step="{fix}",
    ),
    "value_needed": ErrorCode(
        what="{line}: {use} needs the numbers of a lazy array {operands}, and nothing has been "
        "computed yet.",
        next_step="{fix}",
    ),
    "not_an_array": ErrorCode(
        what="{line}: {subject} is {kind}, which is not an array of numbers.",
        next_step="{fix}",
    ),
    "too_many_inputs": ErrorCode(
        what="{line}: the expression reads {count} different arrays; one job takes {limit}.",
        next_step="Save a part of it as its own job and open the result.",
    ),
}

_TORCH: dict[str, ErrorCode] = {
    "torch_missing": ErrorCode(
        what="Capturing a PyTorch program needs torch, which cannot be imported: {reason}.",
        next_step="Install it: pip install 'gpugoblin[capture]'.",
    ),
    "torch_unknown": ErrorCode(
        what="Capture does not know this PyTorch, {version}: {reason}.",
        next_step="Install the version that this gpugoblin was tested with, torch 2.13.",
    ),
    "torch_input_refused": ErrorCode(
        what="{subject} cannot be part of a graph: {reason}.",
        next_step="Convert it to a dtype of the catalog and replace NaN, then capture again.",
    ),
    "operator_missing": ErrorCode(
        what="{line}: the catalog has nothing for {operator} of {operands}. Nothing was sent.",
        next_step="{fix}",
    ),
    "operator_refused": ErrorCode(
        what="{line}: {operator} of {operands}: {cause}. Nothing was sent.",
        next_step="{fix}",
    ),
    "branch_on_data": ErrorCode(
        what="{line} chooses a branch, or the size of a result, by data. Nothing was sent.",
        next_step="{fix}",
    ),
    "program_too_large": ErrorCode(
        what="{line}: the graph of the program is over a limit: {reason}. Nothing was sent.",
        next_step="Capture a part of it (one layer, one step) and repeat that.",
    ),
    "capture_differs": ErrorCode(
        what="The graph captured from {subject} ({rung}) differs from the program by {difference} "
        "of the largest result. Nothing was sent.",
        next_step="Look for random numbers, uninitialized memory or tensors that share memory.",
    ),
    "batch_refused": ErrorCode(
        what="{subject} cannot be captured for any batch: {reason}. Nothing was sent.",
        next_step="Capture it without batch=True for each size, or keep the batch as a first axis.",
    ),
    "loop_shares_memory": ErrorCode(
        what="{line}: tensors that this loop or branch reads or gives share memory, which torch "
        "does not trace. Nothing was sent.",
        next_step="Give it copies of views, `d = torch.diagonal(a).clone()`, and return "
        "`x.clone()` where it returns what it was given.",
    ),
    "capture_failed": ErrorCode(
        what="{line}: {subject} could not be traced: {reason}. Nothing was sent.",
        next_step="Capture a smaller part to find the line, and write it with torch's functions.",
    ),
    "capture_died": ErrorCode(
        what="The process that traces {subject} ended {how}.",
        next_step="Capture on a smaller batch, or with more memory free, or with a longer timeout.",
    ),
    "capture_needs_fork": ErrorCode(
        what="Tracing runs in a forked process, so that a failed one cannot spoil torch here, and "
        "this system cannot fork.",
        next_step="Pass isolate=False to trace in this process, and restart it after a failure.",
    ),
    "weights_misfit": ErrorCode(
        what="{subject} cannot take the weight {name}: {reason}.",
        next_step="Load weights into the module that was captured, or one of the same shapes.",
    ),
}

_FILES: dict[str, ErrorCode] = {
    "file_unreadable": ErrorCode(
        what="{path} cannot be read: {reason}.",
        next_step="Check the path and its permissions.",
    ),
    "file_unwritable": ErrorCode(
        what="{path} cannot be written: {reason}.",
        next_step="Make space or choose another path (overwrite=True replaces a file); the result "
        "is kept on the lab node.",
    ),
    "file_malformed": ErrorCode(
        what="{path} is not a well-formed {kind} file: {reason}.",
        next_step="Write the file again; nothing was sent.",
    ),
    "file_truncated": ErrorCode(
        what="{path} has {found_bytes} bytes; its header promises {expected_bytes}.",
        next_step="Write the file again, or wait until its writer is done; nothing was sent.",
    ),
    "file_kind_unknown": ErrorCode(
        what="{path} is not recognized as npy, zarr or safetensors.",
        next_step="Save it with numpy.save, or open it as numpy.memmap and pass that to gg.open.",
    ),
    "member_missing": ErrorCode(
        what="{path} holds several tensors or none named {member!r}; it has: {members}.",
        next_step="Name one: gg.open(path, member=...).",
    ),
    "file_changed": ErrorCode(
        what="{path} has changed since gg.open read its header.",
        next_step="Open it again, so that the job names the content that it computes on.",
    ),
    "array_changed": ErrorCode(
        what="The array made at {line} has changed since gg.array saw it.",
        next_step="Call gg.array on it again after the last change.",
    ),
    "memmap_layout": ErrorCode(
        what="The memmap of {path} is a view with gaps ({shape}, strides {strides}).",
        next_step="Open the whole memmap, and slice the lazy array instead.",
    ),
    "package_missing": ErrorCode(
        what="{purpose} needs the package {package}, which is not installed.",
        next_step="Install it: pip install {package}",
    ),
    "target_malformed": ErrorCode(
        what="{path!r} cannot be a result file: {reason}.",
        next_step="Give a path that ends in .npy, .zarr or .safetensors, or None to keep the "
        "result on the lab node.",
    ),
}

_NODE: dict[str, ErrorCode] = {
    "not_connected": ErrorCode(
        what="No lab node is connected.",
        next_step='Call gg.connect("local") for this machine, or gg.connect() for the lab node '
        "of your configuration.",
    ),
    "node_unreachable": ErrorCode(
        what="The lab node at {address} cannot be reached: {reason}.",
        next_step="Check the address and that the node runs; jobs on it are not lost, "
        "gg.get(name) finds them again.",
    ),
    "node_silent": ErrorCode(
        what="The lab node at {address} has not answered {request} within {timeout_s} s.",
        next_step="Try again; if it stays silent, look at the node's log.",
    ),
    "node_not_trusted": ErrorCode(
        what="The lab node at {address} does not show the certificate that was asked for: "
        "{reason}.",
        next_step="Compare certificate_sha256 with what `gpugoblin node doctor` shows in the lab; "
        "nothing was sent.",
    ),
    "reply_unexpected": ErrorCode(
        what="The answer of {address} to {request} is not one of a lab node: {reason}.",
        next_step="Check that the address is a lab node, and that both sides are up to date.",
    ),
    "address_malformed": ErrorCode(
        what="{address!r} is not an address of a lab node: {reason}.",
        next_step='Use "local", "https://host:port" or "unix:/path/to/socket".',
    ),
    "token_missing": ErrorCode(
        what="The lab node at {address} wants a token, and none is configured.",
        next_step="Ask the lab for one (`gpugoblin node user add`) and put it into {config} as "
        'token_file = "...", or into GPUGOBLIN_TOKEN.',
    ),
    "token_over_plain_http": ErrorCode(
        what="The token for {address} would travel unencrypted.",
        next_step="Use an https:// address.",
    ),
    "secret_readable": ErrorCode(
        what="{path} holds a token, and other users of this machine can read it.",
        next_step="Make it private: chmod 600 {path}",
    ),
    "config_malformed": ErrorCode(
        what="The configuration {path} is not right: {reason}.",
        next_step="See docs/researcher/configuration.md for every setting.",
    ),
    "local_unsupported": ErrorCode(
        what="A lab node on this machine needs {missing}.",
        next_step="Connect to a lab node on a Linux machine: gg.connect('https://...').",
    ),
    "local_start_failed": ErrorCode(
        what="The lab node of this machine did not start: {reason}.",
        next_step="Its log is {log}. Then call gg.connect('local') again.",
    ),
}

_JOBS: dict[str, ErrorCode] = {
    "job_timeout": ErrorCode(
        what="Job {name!r} was not done within {timeout_s} s ({verified} of {tasks} tasks "
        "verified); it goes on.",
        next_step="Wait again, or come back later: gg.get({name!r}).",
    ),
    "job_cancelled": ErrorCode(
        what="Job {name!r} was cancelled after {verified} of {tasks} tasks.",
        next_step="Submit it again to go on from there, or delete it.",
    ),
    "output_unknown": ErrorCode(
        what="Job {name!r} has {count} outputs; there is none numbered {output}.",
        next_step="Count from 0.",
    ),
    "region_malformed": ErrorCode(
        what="The index {index} does not fit the array of shape {shape}: {reason}.",
        next_step="Use integers, slices of step 1 or more, None is not allowed here.",
    ),
    "certificate_invalid": ErrorCode(
        what="The certificate of job {name!r} does not hold: {reason}.",
        next_step="Do not cite it. Tell the lab, and compare the node's key with the one you know.",
    ),
    "kept_certificate_invalid": ErrorCode(
        what="The certificate in {file} does not hold: {reason}.",
        next_step="Do not rely on it. Ask for the file as the coordinator's page or the lab wrote"
        " it, and compare the key with the one that they show.",
    ),
    "array_elsewhere": ErrorCode(
        what="The array made at {line} lives on the lab node {there}, and the job would run on "
        "{here}.",
        next_step="Connect to that node, or read the array and pass the numbers.",
    ),
    "local_memory_refused": ErrorCode(
        what="A budget of {memory_bytes} bytes is too small; one task needs {least_bytes} or more.",
        next_step="Give memory_bytes of at least 64 MiB, or leave it out for the node's default of "
        "2 GiB.",
    ),
    "option_refused": ErrorCode(
        what="An option of the job is not one that there is: {reason}.",
        next_step="Give executor as 'auto', 'local' or 'grid', priority as a whole number from "
        "-100 to 100, name as a text, and where as what gg.where returns.",
    ),
    "quantity_malformed": ErrorCode(
        what="{value!r} is not {kind}.",
        next_step="Write it like {example!r}.",
    ),
    "command_failed": ErrorCode(
        what="The command {command} cannot be loaded: {reason}.",
        next_step="Install the part that it belongs to: pip install 'gpugoblin[{extra}]'",
    ),
}

_TRAINING: dict[str, ErrorCode] = {
    "data_malformed": ErrorCode(
        what="{line}: {name} cannot be trained on: {reason}.",
        next_step="Pass one array, or a tuple of arrays whose first axes count the same examples: "
        "NumPy arrays, torch tensors, or what gg.open returns.",
    ),
    "data_not_finite": ErrorCode(
        what="{line}: {name} has NaN or infinity in example {example}.",
        next_step="Replace or leave out such examples; nothing was sent.",
    ),
    "loss_refused": ErrorCode(
        what="{line}: the loss is {found}, not one number.",
        next_step="Return the mean over the batch, for example loss.mean().",
    ),
    "model_not_trainable": ErrorCode(
        what="{line}: the model cannot be trained: {reason}.",
        next_step="Pass a torch.nn.Module with float32 parameters, or a function of lazy arrays "
        "with parameters={{name: array}}.",
    ),
    "training_refused": ErrorCode(
        what="{line}: {name}={value!r}: {reason}.",
        next_step="Correct it; nothing was sent.",
    ),
    "checkpoint_misfit": ErrorCode(
        what="The checkpoint {path} is not one of this model: {reason}.",
        next_step="Give the model and the optimizer that it was made with.",
    ),
    "training_no_weights": ErrorCode(
        what="The training {name!r} has done no step yet, so it has no weights but the first ones.",
        next_step="Wait for a step: run.wait(), or look at run.losses.",
    ),
    "not_a_run": ErrorCode(
        what="The job {name!r} is no training.",
        next_step="Use gg.get(name), which tells them apart.",
    ),
}

CODES: dict[str, ErrorCode] = {**_CAPTURE, **_TORCH, **_FILES, **_NODE, **_JOBS, **_TRAINING}
