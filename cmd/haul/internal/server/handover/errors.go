package handover

import "errors"

// ErrNoRestart is returned by [StartSpawner] on systems where no process can take over.
var ErrNoRestart = errors.New("sockets cannot be handed to another process on Windows")

// errSpawnerGone says why a server cannot have a successor: only the spawner could start one,
// because the server itself may not start processes.
var errSpawnerGone = errors.New("the process that starts successors has ended, though nobody should end it; stop and start haul, which cuts transfers that last longer than --grace")
