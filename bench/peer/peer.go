// Package peer has a recipe for haul and for each program that haul is measured against: how to
// find, start, await, measure and end it.
//
//	set := peer.Find(peer.BinDir())
//	s, ok := set.Server("dnsmasq")          // set.Absent says why, if not
//	p, err := s.Start(ctx, peer.Options{Dir: dir})
//	defer p.Stop()
//	before, err := p.CPU()
//	// transfers with p.Addr()
//	after, err := p.CPU()
//
// A program may run elsewhere, for example on one side of an emulated link. The [Command] of the
// program that starts it decides that.
package peer

import (
	"context"
	"net/netip"
	"os/exec"
)

// A Command makes a command for a program and its arguments, to be started later. It is
// exec.CommandContext, or a function that adds a namespace or a limit. Server.Start keeps the
// settings of the returned command, but adds to its environment and SysProcAttr.
type Command func(ctx context.Context, name string, args ...string) *exec.Cmd

// Stores says what happens to an upload.
type Stores int

// The kinds of storage for uploads, from none to a file.
const (
	Refuses  Stores = iota // uploads are refused
	Discards               // uploads are received and dropped
	Memory                 // uploads are kept while the server runs, and can be downloaded
	Disk                   // uploads become files in the served directory
)

// String returns the text for a report.
func (s Stores) String() string {
	return [...]string{"refused", "discarded", "kept in memory", "stored"}[s]
}

// A Server is the recipe for one server, or for one way to start it. It may be started several
// times.
type Server struct {
	Name    string // unique name, which is the same in all reports, such as "dnsmasq single-port"
	Version string // version that the program or its package states; "" if neither does
	Path    string // path of the program
	Build   string // beginning of the program's SHA-256, in hexadecimal; "" if it cannot be read

	SinglePort bool // all transfers use the port that receives requests
	Windows    bool // the server accepts the option windowsize
	// OnlyUploads means that the program takes part in uploads only, because it serves only
	// uploaded files, or differs from another server only in uploads.
	OnlyUploads bool
	MinBlock    int    // smallest block size that the server accepts, in bytes; 0 means 8
	Uploads     Stores // what happens to uploads, unless Options.KeepUploads is set
	Floor       bool   // the program is a yardstick for the least possible cost, not a real server
	Variant     bool   // this way to start the server is measured only in scenarios that name it

	// MaxConcurrent is the known maximum of simultaneous transfers on a machine of 8 GB, or 0 if
	// there is no known limit. With more transfers, the measurement would be useless.
	MaxConcurrent int

	Trade Trade // which answers a TCP server can send

	Note string // remark for the readers of a report; may be empty

	env    []string // variables that are added to the environment of this process
	tcp    bool     // the server listens on TCP: it is an SFTP server, or one of Set.Streams
	rooted bool     // for SFTP: the root of names is the served directory
	makes  string   // directory that the server needs, and that Start makes; "" if it needs none
	port69 bool     // the server can use only port 69
	inDir  bool     // the server serves its working directory
	keeps  bool     // the server can keep uploads in memory instead of discarding them
	needs  string   // "root" if the server needs root, which Start checks; otherwise ""
	args   func(Options, netip.AddrPort) []string

	// config returns the content of the configuration file, whose path is Options.config. It is nil
	// if the server needs no configuration file.
	config func(Options, netip.AddrPort) string
}

// Writes reports whether the server accepts uploads.
func (s *Server) Writes() bool { return s.Uploads != Refuses }

// Options are the parameters for starting a server.
type Options struct {
	Dir string // directory to serve; "" means the working directory

	// Addr is the address to listen on. The default address is loopback. The default port is a free
	// port on loopback, and elsewhere the standard port of TFTP or SSH. A server that can use only
	// port 69 gets that port, and on loopback an address of its own.
	Addr netip.AddrPort

	// KeepUploads makes a server that could discard uploads keep them in memory if it can, so
	// that they can be downloaded again and verified.
	KeepUploads bool

	// ReadOnly keeps a server such as haul from reserving resources for uploads: two descriptors
	// for each possible upload, and descriptors may be scarce.
	ReadOnly bool

	Keys  *Keys // keys with which an SFTP server authenticates itself and its users
	Delay bool  // for a program of package sftpprog: it does not set TCP_NODELAY on connections

	Answer Answer // the answer of a TCP server to each request

	Command Command // makes the command that runs the server; nil means exec.CommandContext

	// config is the path of the configuration file, in a directory that Start makes for a server
	// that needs such a file.
	config string
}

// An Absentee is a program that was not found.
type Absentee struct {
	Name string // name of the recipe
	Why  string // why the program is absent, and how to install it
}

// A Set is the result of Find.
type Set struct {
	Servers []Server // TFTP servers; the Clients are also for TFTP
	Clients []Client
	Tools   []Tool
	Absent  []Absentee
	Pairs   []Pair   // SFTP clients with their servers
	Streams []Server // servers for TCP and HTTP
}

// A Tool is a program that does not move files but measures something else, such as iperf3.
type Tool struct {
	Name, Version, Path string

	env []string
}

// Command returns the command that runs the tool. If run is nil, it means exec.CommandContext.
func (t *Tool) Command(ctx context.Context, run Command, args ...string) *exec.Cmd {
	return command(ctx, run, t.env, t.Path, args...)
}

// Server returns the TFTP server with the given name. It returns false if the server is absent or
// unknown.
func (s *Set) Server(name string) (*Server, bool) {
	for i := range s.Servers {
		if s.Servers[i].Name == name {
			return &s.Servers[i], true
		}
	}
	return nil, false
}

// Pair returns the SFTP pair with the given name. It returns false if the pair is absent or
// unknown.
func (s *Set) Pair(name string) (*Pair, bool) {
	for i := range s.Pairs {
		if s.Pairs[i].Name == name {
			return &s.Pairs[i], true
		}
	}
	return nil, false
}

// Stream returns the TCP or HTTP server with the given name. It returns false if the server is
// absent or unknown.
func (s *Set) Stream(name string) (*Server, bool) {
	for i := range s.Streams {
		if s.Streams[i].Name == name {
			return &s.Streams[i], true
		}
	}
	return nil, false
}

// Client returns the TFTP client with the given name. It returns false if the client is absent or
// unknown.
func (s *Set) Client(name string) (*Client, bool) {
	for i := range s.Clients {
		if s.Clients[i].Name == name {
			return &s.Clients[i], true
		}
	}
	return nil, false
}

// Tool returns the tool with the given name. It returns false if the tool is absent or unknown.
func (s *Set) Tool(name string) (*Tool, bool) {
	for i := range s.Tools {
		if s.Tools[i].Name == name {
			return &s.Tools[i], true
		}
	}
	return nil, false
}

// command makes a command whose environment is that of this process and the variables in env.
func command(ctx context.Context, run Command, env []string, name string, args ...string) *exec.Cmd {
	if run == nil {
		run = exec.CommandContext
	}
	cmd := run(ctx, name, args...)
	if len(env) > 0 {
		cmd.Env = append(cmd.Environ(), env...)
	}
	return cmd
}
