// Package handover takes sockets from systemd and from another process of haul, and
// hands them to the next: that is how a server restarts without dropping connections.
//
// Three processes take part in a restart:
//
//	server   asks its spawner for a child, at SIGUSR2 or SIGHUP
//	spawner  was started with the server, before that gave up its rights; it only
//	         waits, and starts the child with the sockets that it gets
//	child    says "ready" when it can serve, and "serving" after "go"
//
// docs/decisions/016 has the reasons. They exchange lines of text. Each of the three may
// die at any time; the others see that as the end of a line.
package handover

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/haul-project/haul/tcp"
)

const (
	// handedVar has the names of the sockets that a child gets, from descriptor
	// firstHanded on, separated by commas. The descriptor before those is its line to
	// the predecessor.
	handedVar   = "HAUL_HANDED"
	firstHanded = 4

	// maxHanded is how many sockets are handed over. The kernel passes 253
	// descriptors at a time.
	maxHanded = 200

	// readyTime is the default of [Restarter.ReadyTime].
	readyTime = time.Minute

	// RetireTime is how long the transfers and connections of a server may continue
	// after its child has taken over. Then they end as at a signal.
	RetireTime = time.Hour
)

// Names of services, and of their sockets.
const (
	TFTP    = "tftp"
	SFTP    = "sftp"
	HTTP    = "http"
	HTTPS   = "https"
	Metrics = "metrics"
)

// A Socket goes from a server to its child.
type Socket struct {
	Service string // that it is for: see [TFTP]
	File    *os.File
}

// CloseSockets closes their files.
func CloseSockets(all []Socket) {
	for _, s := range all {
		_ = s.File.Close()
	}
}

// FromListeners duplicates the sockets of listeners of package net.
func FromListeners(service string, listeners ...net.Listener) (sockets []Socket, err error) {
	for _, l := range listeners {
		f, ok := l.(interface{ File() (*os.File, error) })
		if !ok {
			return sockets, fmt.Errorf("hand %v over: %w", l.Addr(), errors.ErrUnsupported)
		}
		file, err := f.File()
		if err != nil {
			return sockets, fmt.Errorf("hand %v over: %w", l.Addr(), err)
		}
		sockets = append(sockets, Socket{service, file})
	}
	return sockets, nil
}

// FromTCP duplicates sockets of package tcp.
func FromTCP(service string, at []*tcp.Socket) (sockets []Socket, err error) {
	for _, socket := range at {
		files, err := socket.Files()
		if err != nil {
			return sockets, err
		}
		for _, f := range files {
			sockets = append(sockets, Socket{service, f})
		}
	}
	return sockets, nil
}
