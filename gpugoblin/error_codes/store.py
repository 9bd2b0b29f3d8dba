"""Error codes of the family `store`."""

from __future__ import annotations

from gpugoblin.error_codes.spec import ErrorCode

__all__ = ["CODES"]

CODES: dict[str, ErrorCode] = {
    "disk_full": ErrorCode(
        what="Writing {needed_bytes} bytes to {path} needs more room than the disk has "
        "({free_bytes} bytes are free).",
        next_step="Free space there, or put the lab node's directory on a larger disk; "
        "work goes on from the last byte that was stored.",
    ),
    "disk_failed": ErrorCode(
        what="Reading or writing {path} failed: {reason}.",
        next_step="Check the disk and the permissions of that file, then run the job again.",
    ),
    "blob_missing": ErrorCode(
        what="The blob {blob} is not in the store.",
        next_step="Upload it again, or let the node make it again from its source.",
    ),
    "blob_damaged": ErrorCode(
        what="The blob {blob} does not match its hash at chunk {chunk}: the file on disk was "
        "changed or damaged.",
        next_step="Check the disk; the node makes the blob again from its source.",
    ),
    "blob_truncated": ErrorCode(
        what="The blob {blob} has {size} bytes on disk where {expected} were stored.",
        next_step="Check the disk; the node makes the blob again from its source.",
    ),
    "blob_name_malformed": ErrorCode(
        what="{name!r} is not the name of a blob (64 lower-case hexadecimal digits).",
        next_step="Name blobs by the hash that the store returned.",
    ),
    "manifest_malformed": ErrorCode(
        what="The chunk list of blob {blob} does not fit its size or its name.",
        next_step="Delete the blob and store it again.",
    ),
    "upload_mismatch": ErrorCode(
        what="The uploaded bytes hash to {found}, not to {blob} as was announced.",
        next_step="Upload the blob again from the start.",
    ),
    "upload_offset": ErrorCode(
        what="The upload continues at byte {offset}, but {stored_bytes} bytes are stored.",
        next_step="Ask for the state of the upload and go on from there.",
    ),
    "upload_too_long": ErrorCode(
        what="The upload would have {size} bytes where {expected} were announced.",
        next_step="Upload exactly the announced bytes.",
    ),
    "upload_incomplete": ErrorCode(
        what="The upload has {stored_bytes} of {expected} bytes.",
        next_step="Send the rest, then finish it.",
    ),
    "coding_unknown": ErrorCode(
        what="The coding {coding!r} is not one that this version knows.",
        next_step="Use one of: {known}.",
    ),
    "array_unreadable": ErrorCode(
        what="The array file {path} cannot be read as {kind}: {reason}.",
        next_step="Check the path, the permissions and the format of the file.",
    ),
    "array_truncated": ErrorCode(
        what="The array file {path} has {size} bytes of data where its shape needs {expected}.",
        next_step="Copy or write the file again; it was cut off.",
    ),
    "array_dtype": ErrorCode(
        what="The array file {path} has dtype {dtype}; supported are {known}, little-endian.",
        next_step="Convert it first, for example with numpy's astype.",
    ),
    "array_order": ErrorCode(
        what="The array file {path} is stored in Fortran order.",
        next_step="Save it in C order: numpy.save(path, numpy.ascontiguousarray(a)).",
    ),
    "array_member": ErrorCode(
        what="The file {path} has no tensor {member!r}; it holds {known}.",
        next_step="Name one of them.",
    ),
    "array_file_changed": ErrorCode(
        what="The array file {path} is {found}, but the job was planned for {expected}.",
        next_step="Restore the file, or submit the job again.",
    ),
    "array_bytes_changed": ErrorCode(
        what="The array file {path} does not hold the numbers any more that the job has read.",
        next_step="Leave input files alone until the job has ended; submit it again.",
    ),
    "array_exists": ErrorCode(
        what="The result would replace the existing file {path}.",
        next_step="Choose another path, or pass overwrite=True.",
    ),
    "array_not_replaced": ErrorCode(
        what="The result would replace {path}, which is no {kind} array: overwrite replaces one "
        "array by another and deletes nothing else.",
        next_step="Choose another path, or remove what is there yourself.",
    ),
    "array_box": ErrorCode(
        what="The box {start} to {stop} does not lie inside the array {path} of shape {shape}.",
        next_step="Ask for a box inside the array.",
    ),
}
