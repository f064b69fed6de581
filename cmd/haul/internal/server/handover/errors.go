package handover

import "errors"

// ErrNoRestart is the error of [StartSpawner] where no process can take over.
var ErrNoRestart = errors.New("sockets cannot be handed to another process on Windows")
