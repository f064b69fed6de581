package peer

import (
	"fmt"
	"path/filepath"
)

// A Pair is a client of SFTP with the server that it is measured with. It is
// called as its client is, where that is sshd.
type Pair struct {
	Name   string // unique, the same in each report: "pkg/sftp to pkg/sftp"
	Client SFTPClient
	Server Server
}

// OfSFTP ends the name of a pair among those who are absent: without it, that
// would be a server of TFTP in some cases.
const OfSFTP = " (SFTP)"

// pairings are the names of all pairs, with those of their clients and servers.
var pairings = []struct{ name, client, server string }{
	{"haul", "haul", "sshd"},
	{"haul to haul", "haul", "haul"},
	{"OpenSSH sftp", "OpenSSH sftp", "sshd"},
	{openSSHTuned, openSSHTuned, "sshd"},
	{"pkg/sftp", "pkg/sftp", "sshd"},
	{pkgTuned, pkgTuned, "sshd"},
	{"pkg/sftp to pkg/sftp", "pkg/sftp", "pkg/sftp"},
	{"lftp", "lftp", "sshd"},
	{lftpParts, lftpParts, "sshd"},
	{lftpParallel, lftpParallel, "sshd"},
	{"rclone", "rclone", "sshd"},
}

// pairs finds them.
func (f *finder) pairs() {
	servers, clients := make(map[string]Server), make(map[string]SFTPClient)
	why := make(map[string]error) // by the name of a server or a client that is not there
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
		servers["sshd"], err = sshd(p)
	}
	why["sshd"] = err

	p, err = f.program("pkgsftp/pkgsftp")
	version := func() string { return p.module("github.com/pkg/sftp") }
	client(p, err, version, ofLibrary("pkg/sftp"), ofLibrary(pkgTuned, "-concurrent-writes"))
	if why["pkg/sftp"] = err; err == nil {
		servers["pkg/sftp"] = ofProgram("pkg/sftp", p, version())
	}

	const note = "package sftp, in a program of the suite"
	p, err = runnable(filepath.Join(f.bin, "haulsftp"))
	if err != nil {
		err = fmt.Errorf("there is no haulsftp in %s: %w; \"make bin/haulsftp\" builds it", f.bin, unwrap(err))
	}
	ours := ofLibrary("haul")
	ours.Note = note
	client(p, err, p.compiler, ours)
	if why["haul"] = err; err == nil {
		s := ofProgram("haul", p, p.compiler())
		s.rooted, s.Note = true, note
		servers["haul"] = s
	}

	p, err = f.unpacked("openssh-client", "sftp")
	client(p, err, func() string { return program{path: "ssh"}.version("-V") },
		openSSH("OpenSSH sftp"), openSSH(openSSHTuned, "-R", "256", "-B", "261120"))
	p, err = f.unpacked("lftp", "lftp")
	client(p, err, func() string { return p.version("--version") }, lftp()...)
	p, err = f.unpacked("rclone", "rclone")
	client(p, err, func() string { return p.version("version") }, rclone)

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
