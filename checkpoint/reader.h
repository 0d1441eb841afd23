// Reading a state from a checkpoint folder.
#pragma once

#include <string>

#include <trireme/base/status.h>
#include <trireme/checkpoint/state.h>

#include "checkpoint/manifest.h"

namespace trireme {

// The text of folder/manifest.json.
// Errors: not_found when there is no such folder; data_loss when it has no manifest.
Result<std::string> read_manifest_text(const std::string& folder);

// That every file of the manifest is there and has its length. Errors: data_loss.
Status check_files(const std::string& folder, const Manifest& manifest);

// All of the above, and parsed.
Result<Manifest> open_checkpoint(const std::string& folder);

// That every item of the state is in the checkpoint with the same type and shape.
// Errors: mismatch naming the item and both sides.
Status check_state(const Manifest& manifest, const CheckpointState& state);

// Fills the items' memory, verifying the checksum of every block touched.
// REQUIRES: check_state() is ok. Errors: data_loss naming file and byte.
Status read_state(const std::string& folder, const Manifest& manifest, const CheckpointState& state);

// Verifies every checksum of the checkpoint. Errors: data_loss naming item, file and byte.
Status verify_contents(const std::string& folder, const Manifest& manifest);

}  // namespace trireme
