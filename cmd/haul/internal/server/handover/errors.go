package handover

import "errors"

// ErrNoRestart is returned by [StartSpawner] on systems where no process can take over.
var ErrNoRestart = errors.New("sockets cannot be handed to another process on Windows")
