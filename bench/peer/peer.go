// Package peer has a recipe for each program that haul is measured against,
// and for haul: how it is found, started, waited for, metered and ended.
//
//	set := peer.Find(peer.BinDir())
//	s, ok := set.Server("dnsmasq")          // set.Absent says why, if not
//	p, err := s.Start(ctx, peer.Options{Dir: dir})
//	defer p.Stop()
//	before, err := p.CPU()
//	// transfers with p.Addr()
//	after, err := p.CPU()
//
// A program may run elsewhere than here, for example on one side of an emulated
// link: the program that starts it says how by a [Command].
package peer

import (
	"context"
	"net/netip"
	"os/exec"
)

// A Command makes a command of a program and its arguments, to be started later. It is
// exec.CommandContext, or something that puts a namespace or a limit around it. Its
// settings of the command stay, except that Server.Start adds to the environment and to
// SysProcAttr.
type Command func(ctx context.Context, name string, args ...string) *exec.Cmd

// Stores says what becomes of an upload.
type Stores int

// The fate of uploads, from nothing to a file.
const (
	Refuses  Stores = iota // there are no uploads
	Discards               // taken and forgotten
	Memory                 // kept while the server runs, and readable from it
	Disk                   // a file in the directory served
)

// String names it as in a report.
func (s Stores) String() string {
	return [...]string{"refused", "discarded", "kept in memory", "stored"}[s]
}

// A Server is the recipe for one server, or for one way to start it. The same
// may be started several times.
type Server struct {
	Name    string // unique, the same in each report: "dnsmasq single-port"
	Version string // as the program or its package says; "" if neither does
	Path    string // the program
	Build   string // beginning of its SHA-256, in hexadecimal; "" if it cannot be read

	SinglePort  bool   // all transfers from the port that is asked
	Windows     bool   // agrees to windowsize
	OnlyUploads bool   // takes part in uploads only: it serves nothing but what was uploaded, or differs in nothing else
	MinBlock    int    // bytes: the smallest block it agrees to; 0 means 8
	Uploads     Stores // what becomes of them, unless Options.KeepUploads
	Floor       bool   // a yardstick, not a server
	Variant     bool   // started in a way that only some scenarios ask for, by name

	// MaxConcurrent is the most transfers at the same time that it is known
	// to bear on a machine of 8 GB, 0 if no limit is known. More makes no
	// measurement, only a mess.
	MaxConcurrent int

	Trade Trade // of a server of TCP: what it can do

	Note string // what a reader of a report must know, "" if nothing

	env    []string // beside that of this process
	tcp    bool     // listens on TCP: an SFTP server, or one of Set.Streams
	rooted bool     // of SFTP: names begin at the directory that is served
	makes  string   // a directory that must be there, and is made; "" if none
	port69 bool     // knows no other port
	inDir  bool     // serves its working directory
	keeps  bool     // can keep uploads in memory instead of discarding them
	needs  string   // what must be so, checked by Start: "root" or ""
	args   func(Options, netip.AddrPort) []string

	// config is what stands in the file that Options.config names; nil if the
	// server wants none.
	config func(Options, netip.AddrPort) string
}

// Writes reports whether the server takes uploads.
func (s *Server) Writes() bool { return s.Uploads != Refuses }

// Options say how a server is started.
type Options struct {
	Dir string // what it serves; the zero value is the working directory

	// Addr is where it listens. Without an address that is loopback, without
	// a port a free one on loopback and 69 elsewhere. A server that knows
	// port 69 only gets that, and on loopback an address of its own.
	Addr netip.AddrPort

	// KeepUploads has a server that could discard uploads keep them in memory
	// where it can, so that they can be read again and verified.
	KeepUploads bool

	// ReadOnly spares a server that asks for it, such as haul, what it keeps
	// for uploads: two descriptors for each, of which there may be few.
	ReadOnly bool

	Keys  *Keys // SFTP servers have to know who is who
	Delay bool  // of a program of package sftpprog: connections without TCP_NODELAY

	Answer Answer // of a server of TCP

	Command Command // nil means exec.CommandContext

	// config is a file, in a directory of its own, that Start makes for a server
	// that wants one.
	config string
}

// An Absentee is a program that was looked for and not found.
type Absentee struct {
	Name string // of the recipe
	Why  string // and what to do about it
}

// A Set is what Find found.
type Set struct {
	Servers []Server // of TFTP, as are the clients
	Clients []Client
	Tools   []Tool
	Absent  []Absentee
	Pairs   []Pair   // of SFTP
	Streams []Server // of TCP and HTTP
}

// A Tool is a program that measures something else than files, as iperf3 does.
type Tool struct {
	Name, Version, Path string

	env []string
}

// Command returns the command that runs the tool. run may be nil.
func (t *Tool) Command(ctx context.Context, run Command, args ...string) *exec.Cmd {
	return command(ctx, run, t.env, t.Path, args...)
}

// Server returns the recipe of that name.
func (s *Set) Server(name string) (*Server, bool) {
	for i := range s.Servers {
		if s.Servers[i].Name == name {
			return &s.Servers[i], true
		}
	}
	return nil, false
}

// Pair returns the pair of that name.
func (s *Set) Pair(name string) (*Pair, bool) {
	for i := range s.Pairs {
		if s.Pairs[i].Name == name {
			return &s.Pairs[i], true
		}
	}
	return nil, false
}

// Stream returns the recipe of that name.
func (s *Set) Stream(name string) (*Server, bool) {
	for i := range s.Streams {
		if s.Streams[i].Name == name {
			return &s.Streams[i], true
		}
	}
	return nil, false
}

// Client returns the recipe of that name.
func (s *Set) Client(name string) (*Client, bool) {
	for i := range s.Clients {
		if s.Clients[i].Name == name {
			return &s.Clients[i], true
		}
	}
	return nil, false
}

// Tool returns the tool of that name.
func (s *Set) Tool(name string) (*Tool, bool) {
	for i := range s.Tools {
		if s.Tools[i].Name == name {
			return &s.Tools[i], true
		}
	}
	return nil, false
}

// command makes a command with more in its environment.
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
