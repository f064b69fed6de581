// Package haul is the root of a module that moves files as fast as the link allows: over
// TFTP, SFTP, HTTP(S), S3 and network boot. The command haul, in cmd/haul, is a server, a client and
// a benchmark. The packages of the module do the same for programs:
//
//   - [github.com/haul-project/haul/tftp] serves TFTP. tftpclient below it requests files.
//     [github.com/haul-project/haul/tftp/transfer] defines the options, error codes and counts of
//     both.
//   - [github.com/haul-project/haul/sftp] serves SFTP. sftpclient below it keeps many requests
//     in flight.
//   - [github.com/haul-project/haul/web] serves files and uploads as an http.Handler.
//     webclient below it fetches ranges in parallel.
//   - [github.com/haul-project/haul/store] defines the stores in which all of them read and write
//     files: a directory, memory, an S3 bucket, or a program's own store. treecopy below it copies
//     trees.
//   - [github.com/haul-project/haul/tcp] accepts connections, with limits and timeouts.
//   - [github.com/haul-project/haul/udp] sends and receives datagrams in batches.
//   - [github.com/haul-project/haul/users] decides who may log in, and with which rights.
//
// The page https://github.com/haul-project/haul/blob/main/docs/versions.md explains what a version
// promises.
package haul

import (
	_ "embed"
	"strings"
)

//go:embed VERSION
var version string

// Version returns the version of this module, such as "0.9.0".
func Version() string { return strings.TrimSpace(version) }
