package handover

import "errors"

// Errors of [StartSpawner]: no process of this program can take over here.
var (
	ErrProcessOne = errors.New("this is process 1, and its container or system ends with it: restart the container, or run haul under an init such as tini")
	ErrNoRestart  = errors.New("sockets cannot be handed to another process on Windows")
)
