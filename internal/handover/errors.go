package handover

import "errors"

// Errors of [StartSpawner]: no process of this program can take over here.
var (
	ErrProcessOne = errors.New("this is process 1, and a container or a system ends with that, whoever comes after; restart the container, or run haul below an init such as tini")
	ErrNoRestart  = errors.New("Windows cannot hand sockets to another process")
)
