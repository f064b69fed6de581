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
// exec.CommandContext, or a function that adds a namespace or a limit. Server.Start keeps its
// settings of the command, but adds to the environment and to SysProcAttr.
type Command func(ctx context.Context, name string, args ...string) *exec.Cmd

// Stores says what happens to an upload.
type Stores int

// The kinds of storage for uploads, from none to a file.
const (
	Refuses  Stores = iota // no uploads
	Discards               // received and dropped
	Memory                 // kept while the server runs, and can be downloaded
	Disk                   // a file in the directory served
)

// String returns the text for a report.
func (s Stores) String() string {
	return [...]string{"refused", "discarded", "kept in memory", "stored"}[s]
}

// A Server is the recipe for one server, or for one way to start it. It may be started several
// times.
type Server struct {
	Name    string // unique, the same in each report: "dnsmasq single-port"
	Version string // from the program or its package; "" if neither has one
	Path    string // path of the program
	Build   string // beginning of the program's SHA-256, in hexadecimal; "" if it cannot be read

	SinglePort bool // all transfers use the port of the request
	Windows    bool // accepts windowsize
	// OnlyUploads means that the program takes part in uploads only, because it serves only
	// uploaded files or differs from another one only in uploads.
	OnlyUploads bool
	MinBlock    int    // bytes: the smallest block that it accepts; 0 means 8
	Uploads     Stores // what happens to uploads, unless Options.KeepUploads is set
	Floor       bool   // a yardstick, not a server
	Variant     bool   // started in a way that only some scenarios request, by name

	// MaxConcurrent is the known maximum of simultaneous transfers on a machine of 8 GB, or 0 if
	// there is no known limit. More would make the measurement useless.
	MaxConcurrent int

	Trade Trade // what a TCP server can do

	Note string // remark for the readers of a report; "" if none

	env    []string // added to the environment of this process
	tcp    bool     // listens on TCP: an SFTP server, or one of Set.Streams
	rooted bool     // for SFTP: names begin at the served directory
	makes  string   // a directory that must exist, and that Start makes; "" if none
	port69 bool     // knows only port 69
	inDir  bool     // serves its working directory
	keeps  bool     // can keep uploads in memory instead of discarding them
	needs  string   // a condition that Start checks: "root" or ""
	args   func(Options, netip.AddrPort) []string

	// config returns the content of the file that Options.config names; nil if the server needs
	// none.
	config func(Options, netip.AddrPort) string
}

// Writes reports whether the server accepts uploads.
func (s *Server) Writes() bool { return s.Uploads != Refuses }

// Options are the parameters for starting a server.
type Options struct {
	Dir string // directory to serve; the zero value is the working directory

	// Addr is the address to listen on. The default address is loopback, and the default port is
	// a free one on loopback and 69 elsewhere. A server that only knows port 69 gets that port,
	// and on loopback an address of its own.
	Addr netip.AddrPort

	// KeepUploads makes a server that could discard uploads keep them in memory if it can, so
	// that they can be downloaded again and verified.
	KeepUploads bool

	// ReadOnly saves the resources that a server such as haul reserves for uploads: two
	// descriptors for each, and descriptors may be scarce.
	ReadOnly bool

	Keys  *Keys // SFTP servers need them to authenticate users
	Delay bool  // for a program of package sftpprog: connections without TCP_NODELAY

	Answer Answer // for a TCP server

	Command Command // nil means exec.CommandContext

	// config is a file in a directory of its own that Start makes for a server that needs one.
	config string
}

// An Absentee is a program that was not found.
type Absentee struct {
	Name string // name of the recipe
	Why  string // the reason, and how to fix it
}

// A Set is the result of Find.
type Set struct {
	Servers []Server // TFTP servers; the clients are also for TFTP
	Clients []Client
	Tools   []Tool
	Absent  []Absentee
	Pairs   []Pair   // for SFTP
	Streams []Server // for TCP and HTTP
}

// A Tool is a program that measures something else than files, such as iperf3.
type Tool struct {
	Name, Version, Path string

	env []string
}

// Command returns the command that runs the tool. run may be nil.
func (t *Tool) Command(ctx context.Context, run Command, args ...string) *exec.Cmd {
	return command(ctx, run, t.env, t.Path, args...)
}

// Server returns the recipe with a name.
func (s *Set) Server(name string) (*Server, bool) {
	for i := range s.Servers {
		if s.Servers[i].Name == name {
			return &s.Servers[i], true
		}
	}
	return nil, false
}

// Pair returns the pair with a name.
func (s *Set) Pair(name string) (*Pair, bool) {
	for i := range s.Pairs {
		if s.Pairs[i].Name == name {
			return &s.Pairs[i], true
		}
	}
	return nil, false
}

// Stream returns the recipe with a name.
func (s *Set) Stream(name string) (*Server, bool) {
	for i := range s.Streams {
		if s.Streams[i].Name == name {
			return &s.Streams[i], true
		}
	}
	return nil, false
}

// Client returns the recipe with a name.
func (s *Set) Client(name string) (*Client, bool) {
	for i := range s.Clients {
		if s.Clients[i].Name == name {
			return &s.Clients[i], true
		}
	}
	return nil, false
}

// Tool returns the tool with a name.
func (s *Set) Tool(name string) (*Tool, bool) {
	for i := range s.Tools {
		if s.Tools[i].Name == name {
			return &s.Tools[i], true
		}
	}
	return nil, false
}

// command makes a command with additions to its environment.
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
