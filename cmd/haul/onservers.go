package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

// onServersOrHere does the same as [onServers], but also accepts local files.
func onServersOrHere(cmd *cobra.Command, f *sshFlags, w *webFlags, words []string, run func(context.Context, *remote.Servers, []remote.Location) error) error {
	list, err := remote.ParseAll(words)
	if err != nil {
		return err
	}
	for _, l := range list {
		if l.IsRemote() {
			return onServers(cmd, f, w, words, run)
		}
	}
	if err := onlyFlagsOf(remote.Local, cmd); err != nil {
		return err
	}
	return run(cmd.Context(), nil, list)
}

// onServers runs a command on locations of one protocol. w is nil for a command that does not
// support HTTP.
func onServers(cmd *cobra.Command, f *sshFlags, w *webFlags, words []string, run func(context.Context, *remote.Servers, []remote.Location) error) error {
	list, err := serverLocations(cmd, w != nil, words)
	if err != nil {
		return err
	}
	if err := onlyFlagsOf(list[0].Protocol, cmd); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	if w == nil {
		w = new(webFlags)
	}
	c := remoteConfig(f, w, cmd.ErrOrStderr())
	c.Quiet, _ = cmd.Flags().GetBool("quiet") // not all commands have this flag
	s := remote.New(c)
	defer s.Close()
	return run(cmd.Context(), s, list)
}

// serverLocations parses locations on servers, which must have the same protocol. TFTP is allowed
// only for the command probe. If overHTTP is not set, errors about other locations do not suggest
// HTTP.
func serverLocations(cmd *cobra.Command, overHTTP bool, words []string) ([]remote.Location, error) {
	list, err := remote.ParseAll(words)
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		switch {
		case !l.IsRemote() || l.Protocol == remote.TFTP && cmd.Name() != "probe":
			if !overHTTP && list[0].Protocol == remote.HTTP {
				l = list[0] // report the first location: the command does not support HTTP either
			}
			return nil, noFiles(cmd.Name(), l, overHTTP)
		case l.Protocol != list[0].Protocol:
			return nil, failure.Usage.Errorf("%s %v and %v: all locations of one command have to be of the same protocol", cmd.Name(), list[0], l)
		}
	}
	return list, nil
}

// noFiles returns the error for a location that a command does not support.
func noFiles(command string, l remote.Location, overHTTP bool) error {
	over, write, advice := "SFTP", "sftp://HOST/PATH or HOST:PATH", ""
	if overHTTP {
		over, write = "SFTP, HTTP and S3", "sftp://HOST/PATH, https://HOST/PATH, s3://BUCKET/KEY or HOST:PATH"
	}
	if command == "probe" {
		if err := remote.MissingScheme(l.Text); err != nil {
			return err
		}
		write = "tftp://HOST/FILE, " + write
	}
	if !l.IsRemote() {
		return failure.Usage.Errorf("%s %v: that is a local file; write %s", command, l, write)
	}
	if l.Protocol == remote.HTTP {
		return failure.Usage.Errorf("%s %v: HTTP has no way to do that; %s works over SFTP", command, l, command)
	}
	if command == "stat" {
		advice = `; "haul probe" prints the size of a file`
	}
	return failure.Usage.Errorf("%s %v: %v can only get and put single files; %s works over %s%s", command, l, l.Protocol, command, over, advice)
}
