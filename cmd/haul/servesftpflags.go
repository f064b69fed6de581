package main

import (
	"net/netip"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/sftp"
)

// sftpFlags are those flags of "haul serve" that SFTP alone has.
type sftpFlags struct {
	users, hostKeys string
	rate            byteSize
	conns           int
	inPlace         bool
	exempt          []string

	exempted []netip.Prefix // of exempt
}

// sftpOnly are flags that mean nothing without SFTP.
var sftpOnly = strings.Fields("users host-keys sftp-rate sftp-conns sftp-in-place sftp-exempt")

func (f *sftpFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.users, "users", "", "`file` of who may log in by SFTP, as \"haul user\" writes it; without it "+usersPlaces+", if there is one")
	flags.StringVar(&f.hostKeys, "host-keys", "", "`directory` of SSH host keys, where one is made if there is none; without it "+hostKeysPlaces)
	flags.Var(&f.rate, "sftp-rate", "most bytes a second each way of all SFTP users together, such as 50M; 0 means no limit")
	flags.IntVar(&f.conns, "sftp-conns", defaultConns, "most SSH connections at the same time")
	flags.BoolVar(&f.inPlace, "sftp-in-place", false, "show an upload under its name from its first byte on; then clients can go on with one that was cut off (reput)")
	flags.StringSliceVar(&f.exempt, "sftp-exempt", nil, "`networks` that are not kept out for logins that failed")
	cobra.CheckErr(cmd.MarkFlagFilename("users"))
	cobra.CheckErr(cmd.MarkFlagDirname("host-keys"))
}

const (
	defaultConns = 1024
	mostConns    = 1 << 16
)

// check checks what can be checked without opening anything.
func (f *sftpFlags) check() error {
	if f.conns <= 0 || f.conns > mostConns {
		return usagef("--sftp-conns %d: it is 1 to %d", f.conns, mostConns)
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
func (f *serveFlags) shareOf(limit int) int { return limit / f.services() }

// services returns how many services share the descriptors.
func (f *serveFlags) services() (n int) {
	for _, served := range []bool{f.servesTFTP(), f.servesSFTP(), f.servesHTTP()} {
		if served {
			n++
		}
	}
	return n
}
