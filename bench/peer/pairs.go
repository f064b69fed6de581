package peer

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
)

// A Pair is an SFTP client with the server that it is measured with. If the server is sshd, the
// name of the pair is the name of the client.
type Pair struct {
	Name   string // unique name, which is the same in all reports, such as "pkg/sftp to pkg/sftp"
	Client SFTPClient
	Server Server
}

// OfSFTP is a suffix of the name of an absent pair. Without it, the name could be confused with the
// name of a TFTP server.
const OfSFTP = " (SFTP)"

// pairings lists the names of all pairs, with the names of their clients and servers.
var pairings = []struct{ name, client, server string }{
	{"haul", "haul", "sshd"},
	{"haul to haul", "haul", "haul"},
	{LibraryPair, "haul", LibraryPair},
	{"OpenSSH sftp", "OpenSSH sftp", "sshd"},
	{openSSHTuned, openSSHTuned, "sshd"},
	{"pkg/sftp", "pkg/sftp", "sshd"},
	{pkgTuned, pkgTuned, "sshd"},
	{"pkg/sftp to pkg/sftp", "pkg/sftp", "pkg/sftp"},
	{"lftp", "lftp", "sshd"},
	{lftpParts, lftpParts, "sshd"},
	{lftpParallel, lftpParallel, "sshd"},
	{"rclone", "rclone", "sshd"},
	{"mscp", "mscp", "sshd"},
}

// LibraryPair is the name of the pair of haul's client with a program of the suite around package
// sftp as the server. That program has settings for experiments.
const LibraryPair = "haul, package sftp"

// Pairs returns the pairs whose programs it finds, and the absent ones with the reasons. haul is
// the path of a haul binary, and binDir is as for Find.
func Pairs(binDir, haul string) ([]Pair, []Absentee) {
	f := newFinder(binDir)
	f.pairs(haul)
	return f.set.Pairs, f.set.Absent
}

// ofSuite is the note for readers of a report if a program of the suite is used in place of haul's
// command.
const ofSuite = "package sftp, in a program of the suite"

// ours returns haul as a client and as a server. It uses haul's commands, if this build has them,
// and a program of the suite around package sftp for everything else. The third result is that
// program as a server.
func (f *finder) ours(haul string) (SFTPClient, Server, Server, error) {
	p, err := runnable(filepath.Join(f.bin, "haulsftp"))
	if err != nil {
		return SFTPClient{}, Server{}, Server{}, fmt.Errorf("there is no haulsftp in %s: %w; \"make bin/haulsftp\" builds it", f.bin, unwrap(err))
	}
	c, s := ofLibrary("haul"), ofProgram("haul", p, p.compiler())
	c.Path, c.Version, c.Build, c.Note = p.path, p.compiler(), p.build(), ofSuite
	s.rooted, s.Note = true, ofSuite
	library := s
	library.Name = LibraryPair
	binary, err := runnable(haul)
	if err != nil {
		return c, s, library, nil // no error: other scenarios report that haul is missing
	}
	version := strings.TrimSpace(binary.output("version"))
	if strings.Contains(binary.flags("get"), "--identity") {
		maps.Copy(c.tasks, haulCommands(binary.path))
		c.Version, c.Build, c.Note = version, binary.build()+"+"+c.Build, ""
	}
	if help := binary.flags("serve"); strings.Contains(help, "--host-keys") {
		s = haulSFTP(binary.path, help)
		s.Version, s.Build = version, binary.build()
	}
	return c, s, library, nil
}

// pairs adds the pairs that it finds to the set, and records the absent ones.
func (f *finder) pairs(haul string) {
	servers, clients := make(map[string]Server), make(map[string]SFTPClient)
	why := make(map[string]error) // why a server or a client is absent, by its name
	client := func(p program, err error, version func() string, all ...SFTPClient) {
		for _, c := range all {
			if err != nil {
				why[c.Name] = err
				continue
			}
			c.Path, c.env, c.Version, c.Build = p.path, p.env, version(), p.build()
			clients[c.Name] = c
		}
	}

	p, err := f.unpacked("openssh-server", "sshd")
	if err == nil {
		var s Server
		if s, err = sshd(p); err == nil {
			servers["sshd"] = s
		}
	}
	why["sshd"] = err

	p, err = f.program("pkgsftp/pkgsftp")
	version := func() string { return p.module("github.com/pkg/sftp") }
	client(p, err, version, ofLibrary("pkg/sftp"), ofLibrary(pkgTuned, "-concurrent-writes"))
	if why["pkg/sftp"] = err; err == nil {
		servers["pkg/sftp"] = ofProgram("pkg/sftp", p, version())
	}

	ourClient, ourServer, library, err := f.ours(haul)
	why["haul"], why[LibraryPair] = err, err
	if err == nil {
		clients["haul"], servers["haul"], servers[LibraryPair] = ourClient, ourServer, library
	}

	p, err = f.unpacked("openssh-client", "sftp")
	client(p, err, func() string { return program{path: "ssh"}.version("-V") },
		openSSH("OpenSSH sftp"), openSSH(openSSHTuned, "-R", "256", "-B", "261120"))
	p, err = f.unpacked("lftp", "lftp")
	client(p, err, func() string { return p.version("--version") }, lftp()...)
	p, err = f.unpacked("rclone", "rclone")
	client(p, err, func() string { return p.version("version") }, rclone)
	p, err = f.program("mscp/mscp")
	client(p, err, func() string { return p.version("-h") }, mscp())

	for _, pair := range pairings {
		s, served := servers[pair.server]
		c, ok := clients[pair.client]
		switch {
		case !ok:
			f.absent(why[pair.client].Error(), pair.name+OfSFTP)
		case !served:
			f.absent(why[pair.server].Error(), pair.name+OfSFTP)
		default:
			f.set.Pairs = append(f.set.Pairs, Pair{Name: pair.name, Client: c, Server: s})
		}
	}
}

// PairNames returns the names of all pairs, including absent ones.
func PairNames() []string {
	var all []string
	for _, p := range pairings {
		all = append(all, p.name)
	}
	return all
}
