// Package haul is the root of a module that moves files as fast as the link allows: over
// TFTP, SFTP, HTTP(S), S3 and network boot. The command haul, in cmd/haul, is server, client and
// benchmark. Its packages do the same for programs:
//
//   - [github.com/haul-project/haul/tftp] serves TFTP, and tftpclient below it asks for files.
//     [github.com/haul-project/haul/tftp/transfer] has their options, error codes and counts.
//   - [github.com/haul-project/haul/sftp] serves SFTP. sftpclient below it keeps many requests
//     in flight.
//   - [github.com/haul-project/haul/web] serves files and uploads as an http.Handler.
//     webclient below it fetches ranges in parallel.
//   - [github.com/haul-project/haul/store] is where all of them read and write files: a
//     directory, memory, a bucket of S3, or a program's own. treecopy below it copies trees.
//   - [github.com/haul-project/haul/tcp] accepts connections, with limits and timeouts.
//   - [github.com/haul-project/haul/udp] sends and receives datagrams in batches.
//   - [github.com/haul-project/haul/users] has who may log in.
//
// What a version promises:
// https://github.com/haul-project/haul/blob/main/docs/versions.md
package haul

import (
	_ "embed"
	"strings"
)

//go:embed VERSION
var version string

// Version returns the version of this module, such as "0.9.0".
func Version() string { return strings.TrimSpace(version) }
