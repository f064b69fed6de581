// Package handover receives sockets from systemd and from another process of haul, and hands them
// to a successor. That lets a server restart without dropping connections.
//
// Three processes take part in a restart:
//
//	server   asks its spawner for a child, at SIGUSR2 or SIGHUP
//	spawner  was started before the server gave up its rights; it only waits for requests, and
//	         starts the child with the sockets that the server sends
//	child    says "ready" when it can serve, and "serving" after "go"
//
// docs/decisions/016 gives the reasons, and words.go lists the lines of text that the processes
// exchange. Each of the three may die at any time. The others notice that, because their connection
// to the dead process is closed.
package handover

import (
	"errors"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/haul-project/haul/tcp"
)

const (
	// handedVar is the variable that describes the sockets of a child, separated by commas. The
	// first socket is descriptor firstHanded. The descriptor before it is the child's connection to
	// its predecessor, called the line.
	handedVar   = "HAUL_HANDED"
	firstHanded = 4

	// maxHanded is the maximum number of sockets that are handed over. The kernel passes at most
	// 253 descriptors at a time.
	maxHanded = 200

	// readyTime is the default of [Restarter.ReadyTime].
	readyTime = time.Minute

	// MaxHistory is the largest size of the history that a server sends to its child, in bytes.
	MaxHistory = 4 << 20

	// RetireTime is how long the transfers and connections of a server may continue after its child
	// has taken over. Then the server stops them as it does after a signal.
	RetireTime = time.Hour
)

// These are the names of services, which are also the names of their sockets.
const (
	TFTP    = "tftp"
	SFTP    = "sftp"
	HTTP    = "http"
	HTTPS   = "https"
	Metrics = "metrics"
	Status  = "status"
	Boot    = "boot"
)

// A Socket is a socket that a server hands to its child, or another file that a service hands over.
type Socket struct {
	Service string // the service that uses it, such as [TFTP]
	Addr    string // the configured address; "" if systemd opened the socket
	Shared  bool   // transfers of this process still use it: see [DatagramPlace]
	File    *os.File
}

// shared is appended to the name of the service if the Socket is shared.
const shared = "+"

// name returns the entry that describes the socket in the variable [handedVar].
func (s Socket) name() string {
	name := s.Service
	if s.Shared {
		name += shared
	}
	return name + "=" + url.QueryEscape(s.Addr)
}

// parseSocket parses an entry that the method name has returned.
func parseSocket(name string) (s Socket, err error) {
	service, addr, ok := strings.Cut(name, "=")
	if !ok {
		return s, errors.New("the predecessor is another version of haul, which cannot hand over to this one: restart haul instead")
	}
	s.Service, s.Shared = strings.CutSuffix(service, shared)
	s.Addr, err = url.QueryUnescape(addr)
	return s, err
}

// CloseSockets closes the files of the sockets.
func CloseSockets(all []Socket) {
	for _, s := range all {
		if s.File != nil {
			_ = s.File.Close()
		}
	}
}

// FromTCP duplicates the listening sockets of a service. asked[i] is the configured address of
// at[i].
func FromTCP(service string, at []*tcp.Socket, asked []string) (sockets []Socket, err error) {
	for i, socket := range at {
		files, err := socket.Files()
		if err != nil {
			return sockets, err
		}
		for _, f := range files {
			sockets = append(sockets, Socket{Service: service, Addr: asked[i], File: f})
		}
	}
	return sockets, nil
}
