package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/spf13/cobra"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/copying"
	"github.com/haul-project/haul/cmd/haul/internal/client/openssh"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/s3"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/web/webclient"
)

// These exit codes are listed in "haul help exit-codes".
const (
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitRefused     = 4
	exitNoAnswer    = 5
	exitLocal       = 6
	exitInterrupted = 130
)

// causes maps the exit codes to their words in events.
var causes = map[int]string{
	exitFailed: "failed", exitUsage: "usage", exitNotFound: "not-found", exitRefused: "refused",
	exitNoAnswer: "no-answer", exitLocal: "local", exitInterrupted: "interrupted",
}

// classify returns the exit code of an error, and the word for that code in events.
func classify(err error) (code int, cause string) {
	code = exitCode(err)
	return code, causes[code]
}

// gravest lists the exit codes, the gravest first. Codes of errors that the user can correct on
// this machine, or that concern all files, come first; codes of errors that concern one file come
// last.
var gravest = []int{exitUsage, exitInterrupted, exitLocal, exitNoAnswer, exitRefused, exitNotFound, exitFailed}

// exitCode maps an error to the exit code that the help text promises. For errors that are joined
// by [errors.Join], it returns the gravest code. For one error, the first matching case decides.
func exitCode(err error) int {
	if several := failure.Joined(err); len(several) > 0 {
		code := exitFailed
		for _, err := range several {
			if c := exitCode(err); slices.Index(gravest, c) < slices.Index(gravest, code) {
				code = c
			}
		}
		return code
	}
	fault, ofPeer := errors.AsType[*transfer.Error](err)
	ofPeer = ofPeer && fault.Remote
	switch code := cmp.Or(webCode(err), s3Code(err), sshCode(err)); {
	case errors.Is(err, failure.Usage):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, failure.Listen):
		return exitFailed
	case ofPeer && fault.Code == transfer.FileNotFound:
		return exitNotFound
	case ofPeer:
		return exitRefused
	case code != 0:
		return code
	case errors.Is(err, failure.Local), isLocal(err), errors.Is(err, store.ErrNoSpace):
		return exitLocal
	case remote.IsNoAnswer(err):
		return exitNoAnswer
	}
	return exitFailed
}

// sshCode returns the exit code for an SSH or SFTP error, or 0 for any other error.
func sshCode(err error) int {
	refusal := isRefusal(err)
	_, algorithms := errors.AsType[*ssh.AlgorithmNegotiationError](err)
	config, badConfig := errors.AsType[*openssh.ConfigError](err)
	moved, moving := errors.AsType[*sftpclient.TransferError](err)
	run, ofCopy := errors.AsType[*copying.Error](err)
	missing := errors.Is(err, fs.ErrNotExist)
	server := errors.Is(err, failure.Remote) || sftpclient.IsRemote(err)
	// ofSource means that the copy itself found something wrong with its sources: no server has
	// refused anything, and no local file has failed.
	ofSource := ofCopy && !server && !isLocal(err)
	switch {
	case errors.Is(err, openssh.ErrHostKey), errors.Is(err, openssh.ErrAuth), errors.Is(err, openssh.ErrRefused), algorithms:
		return exitRefused
	case badConfig && config.File == "":
		return exitUsage
	case badConfig:
		return exitLocal
	case errors.Is(err, failure.Dial), errors.Is(err, sftpclient.ErrConnectionLost), errors.Is(err, sftpclient.ErrStalled), errors.Is(err, sftpclient.ErrClosed):
		return exitNoAnswer
	case refusal && missing, server && missing, ofSource && run.Get && missing:
		return exitNotFound
	case refusal:
		return exitRefused
	case ofSource && errors.Is(err, store.ErrNotRegular) && run.Get:
		return exitRefused
	case ofSource && errors.Is(err, store.ErrNotRegular):
		return exitLocal
	case moving && moved.Local && !server:
		return exitLocal
	case server && remote.IsNoAnswer(err):
		return exitNoAnswer
	case errors.Is(err, sftpclient.ErrProtocol):
		return exitFailed
	case server:
		return exitRefused
	}
	return 0
}

// webCode returns the exit code for an HTTP error, or 0 for any other error.
func webCode(err error) int {
	moved, moving := errors.AsType[*webclient.TransferError](err)
	server := webclient.IsRemote(err)
	switch {
	case errors.Is(err, webclient.ErrLogin), webclient.IsCertificateError(err):
		return exitRefused
	case errors.Is(err, webclient.ErrLost):
		return exitNoAnswer
	case errors.Is(err, webclient.ErrProtocol), errors.Is(err, webclient.ErrChanged), errors.Is(err, webclient.ErrEncoded):
		return exitFailed
	}
	return codeOfSide(err, server, moving && moved.Local)
}

// s3Code returns the exit code for an S3 error, or 0 for any other error.
func s3Code(err error) int {
	moved, moving := errors.AsType[*s3.TransferError](err)
	server := s3.IsRemote(err)
	switch {
	case errors.Is(err, s3.ErrLogin):
		return exitRefused
	case errors.Is(err, s3.ErrNoBucket):
		return exitNotFound
	case errors.Is(err, s3.ErrLost):
		return exitNoAnswer
	case errors.Is(err, s3.ErrProtocol), server && errors.Is(err, store.ErrChanged):
		return exitFailed
	}
	return codeOfSide(err, server, moving && moved.Local)
}

// isLocal reports whether an error concerns a file of this machine.
func isLocal(err error) bool {
	if remote.IsRemote(err) {
		return false
	}
	_, path := errors.AsType[*fs.PathError](err)
	_, link := errors.AsType[*os.LinkError](err)
	return path || link
}

// isRefusal reports whether an SFTP server has refused a request.
func isRefusal(err error) bool {
	_, ok := errors.AsType[*sftpclient.StatusError](err)
	return ok
}

// codeOfSide returns the exit code of an error of the server (if `server` is set) or, in a
// transfer, of this machine (if `local` is set). If neither is set, it returns 0.
func codeOfSide(err error, server, local bool) int {
	switch {
	case server && errors.Is(err, fs.ErrNotExist):
		return exitNotFound
	case server && remote.IsNoAnswer(err):
		return exitNoAnswer
	case server:
		return exitRefused
	case local:
		return exitLocal
	}
	return 0
}

// printFailure prints why a command failed. After a usage error it refers to the command's help.
// Then it prints advice, if there is any.
func printFailure(out io.Writer, cmd *cobra.Command, err error) {
	printError(out, err)
	if exitCode(err) == exitUsage {
		fmt.Fprintf(out, "see: %s --help\n", cmd.CommandPath())
	}
	if text := remote.Advice(err); text != "" {
		fmt.Fprintln(out, "haul: note:", text)
	}
}

// printError prints an error on one line, and each of several joined errors on a line of its own.
// Line breaks in file names or in a server's words do not begin a new line.
func printError(out io.Writer, err error) {
	if several := failure.Joined(err); len(several) > 0 {
		for _, err := range several {
			printError(out, err)
		}
		return
	}
	if errors.Is(err, failure.Said) {
		return
	}
	text := console.Visible(err.Error())
	if errors.Is(err, context.Canceled) {
		text = strings.Replace(text, context.Canceled.Error(), "interrupted", 1)
	}
	fmt.Fprintln(out, "haul:", text)
}
