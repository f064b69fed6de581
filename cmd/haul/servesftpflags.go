package main

import (
	"net/netip"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/handover"
	"github.com/haul-project/haul/internal/penalty"
	"github.com/haul-project/haul/sftp"
)

// sftpFlags are those flags of "haul serve" that SFTP alone has.
type sftpFlags struct {
	users, hostKeys string
	rate            console.ByteSize
	conns           int
	connsPerSource  int
	inPlace         bool
	specialBits     bool
	exempt          []string

	exempted []netip.Prefix // of exempt
}

// sftpOnly are flags that mean nothing without SFTP.
var sftpOnly = strings.Fields("users host-keys sftp-rate sftp-conns sftp-conns-per-source sftp-in-place sftp-special-bits sftp-exempt")

func (f *sftpFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.users, "users", "", "users `FILE` of those who may log in by SFTP: see haul user --help (default: "+usersPlaces+", if it exists)")
	flags.StringVar(&f.hostKeys, "host-keys", "", "`DIR` of SSH host keys; one is made if there is none (default: "+hostKeysPlaces+"); none: a key for this run only, in memory")
	flags.Var(&f.rate, "sftp-rate", "bytes a second each way for all SFTP users together, such as 50MB (0: no limit)")
	flags.IntVar(&f.conns, "sftp-conns", defaultConns, "at most `N` SSH connections at a time")
	flags.IntVar(&f.connsPerSource, "sftp-conns-per-source", penalty.DefaultMaxConnsPerSource, "at most `N` SSH connections at a time from one address (IPv6: from one /64)")
	flags.BoolVar(&f.inPlace, "sftp-in-place", false, "show an upload under its name from its first byte on; then clients can resume one that was cut off (reput)")
	flags.BoolVar(&f.specialBits, "sftp-special-bits", false, "let clients set and clear setuid, setgid and sticky bits (by default directories keep theirs, and files lose them)")
	flags.StringSliceVar(&f.exempt, "sftp-exempt", nil, "`NETWORK` that is never locked out and has no limit for one address; several are separated by commas")
}

// noHostKeys is the value of --host-keys for a key in memory, for example to serve
// a tree that holds all the places of the others.
const noHostKeys = "none"

const (
	defaultConns = 1024
	mostConns    = 1 << 16
)

// check checks what can be checked without opening anything.
func (f *sftpFlags) check() error {
	if f.conns <= 0 || f.conns > mostConns {
		return usagef("--sftp-conns %d: it is 1 to %d", f.conns, mostConns)
	}
	if f.connsPerSource <= 0 || f.connsPerSource > mostConns {
		return usagef("--sftp-conns-per-source %d: it is 1 to %d", f.connsPerSource, mostConns)
	}
	var err error
	f.exempted, err = parseNetworks("sftp-exempt", f.exempt)
	return err
}

// What SFTP needs of memory, in bytes. Most connections wait; one that moves a
// file may have a window of SSH in memory (2 MiB), and requests and replies
// (272 KiB each). That all of them do so at once is not planned for: the bound
// is one that garbage may not pass, and not one that keeps anybody waiting.
const (
	memoryPerConn    = 96 << 10
	memoryPerSession = 3 << 20
	busySessions     = 64       // that move files at the same time
	memoryPerHash    = 20 << 20 // a password that is checked (argon2id)
)

func (f *sftpFlags) memory() int64 {
	return int64(f.conns)*memoryPerConn + busySessions*memoryPerSession + int64(runtime.GOMAXPROCS(0))*memoryPerHash
}

// Threads: a call to a disk that hangs keeps one, and each session of SFTP, and each
// request of HTTP, has one such call at most. The Go runtime ends a process that has
// more than 10,000, unless it is told that this is not a mistake.
const (
	usualThreads = 10_000
	spareThreads = 1000 // for all others
)

// boundThreads allows for the threads of all of them.
func (f *serveFlags) boundThreads() {
	threads := spareThreads
	if f.servesSFTP() {
		threads += f.ssh.conns * sftp.DefaultMaxChannels
	}
	if f.servesHTTP() {
		threads += mostHTTPConns * httpStreams
	}
	debug.SetMaxThreads(max(usualThreads, threads))
}

// Descriptors: an SSH connection has its socket, and the files that are open by
// it. How many these are is for the users to know; so many are allowed for. That of
// its user's directory comes on top.
const (
	filesPerConn   = 4
	handlesPerUser = sftp.DefaultMaxHandles
)

// shareOf returns how many of the descriptors one of the services may count on.
func (f *serveFlags) shareOf(limit int) int {
	n := 0
	for _, served := range []bool{f.servesTFTP(), f.servesSFTP(), f.servesHTTP()} {
		if served {
			n++
		}
	}
	return limit / n
}

// services returns the names of the services.
func (f *serveFlags) services() (names []string) {
	for _, s := range []struct {
		name   string
		served bool
	}{{handover.TFTP, f.servesTFTP()}, {handover.SFTP, f.servesSFTP()}, {handover.HTTP, anyAddr(f.http)}, {handover.HTTPS, anyAddr(f.https)}} {
		if s.served {
			names = append(names, s.name)
		}
	}
	return names
}
