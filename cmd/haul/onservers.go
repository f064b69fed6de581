package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
)

// onServers runs a command on locations that are all of one protocol. w is nil for a
// command that HTTP has no method for.
func onServers(cmd *cobra.Command, f *sshFlags, w *webFlags, words []string, run func(context.Context, *remote.Servers, []remote.Location) error) error {
	list, err := remote.ParseAll(words)
	if err != nil {
		return err
	}
	for _, l := range list {
		switch {
		case !l.IsRemote() || l.Protocol == remote.TFTP && cmd.Name() != "probe":
			return noFiles(cmd.Name(), l, w != nil)
		case l.Protocol != list[0].Protocol:
			return mixed(cmd.Name(), list[0], l)
		}
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
	c.Quiet, _ = cmd.Flags().GetBool("quiet") // which not all commands have
	s := remote.New(c)
	defer s.Close()
	return run(cmd.Context(), s, list)
}

// noFiles refuses a location where no files can be looked after.
func noFiles(command string, l remote.Location, overHTTP bool) error {
	over, write, advice := "SFTP", "sftp://HOST/PATH or HOST:PATH", ""
	if overHTTP {
		over, write = "SFTP and HTTP", "sftp://HOST/PATH, https://HOST/PATH or HOST:PATH"
	}
	if !l.IsRemote() {
		return failure.Usage.Errorf("%s %v: that is a local file; write %s", command, l, write)
	}
	if command == "stat" {
		advice = `; "haul probe" prints the size of a file`
	}
	return failure.Usage.Errorf("%s %v: %v can only get and put single files; %s works over %s%s", command, l, l.Protocol, command, over, advice)
}

// mixed refuses locations of several protocols.
func mixed(command string, first, l remote.Location) error {
	return failure.Usage.Errorf("%s %v and %v: all locations of one command have to be of the same protocol", command, first, l)
}
