package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/serve"
	"github.com/haul-project/haul/users"
)

const userHelp = `Say who may log in to "haul serve": by SFTP, and over HTTP if the file is that of
--http-auth. HTTP takes passwords only: users without one, and
those who need a key as well, cannot log in there.

Users are in a file of text, which may be edited by hand as well. A server that
runs takes a change over within seconds; if anything in it is wrong, it says so
and all stays as it was. Without --users it is the same file that "haul serve"
takes without --users, for SFTP:
` + serve.UsersPlaces + `.

The file must be closed to everybody but its owner and group, and readable for
the user that the server runs as: "chgrp haul FILE; chmod 640 FILE" for one that
becomes haul. It must belong to that user or to root, as whoever owns it decides
who may log in.

It has one statement a line; a line that begins with # is a comment. For one user:
  user NAME       begins what is said of a user
  password HASH   bcrypt, or argon2id as "haul user" writes it
  key LINE        a line of an authorized_keys file, its options included
  disabled        may not log in
For one user, or before the first for all:
  keys FILE       an authorized_keys file
  root DIR        absolute, or below the directory that is served
  access WHAT     full, read-only or upload-only
  limit RATE      bytes a second each way, such as 10MiB
  from NET...     log in from these networks only
  require WHAT    any, or key+password: first the one, then the other
Before the first user only:
  authority LINE     a key whose certificates count for the users they name
  authorities FILE   a file of such keys
  revoked FILE       keys, or SHA256: fingerprints, that nobody may use
In FILE and DIR %u is the user's name. A FILE that is not absolute is sought
beside the users file.`

func newUser() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "user",
		Short: "Say who may log in by SFTP or HTTP",
		Long:  userHelp,
		Args:  noCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newUserAdd(), newUserList(), newUserShow(), newUserSet(), newUserKey(), newUserPassword(),
		newUserDisable(true), newUserDisable(false), newUserRemove())
	return cmd
}

// A usersFlag is the flag that names the users file.
type usersFlag struct{ name string }

func (f *usersFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "users", "", "users `FILE` (default: "+serve.UsersPlaces+")")
}

// path returns the users file.
func (f *usersFlag) path() (string, error) {
	if f.name != "" {
		return f.name, nil
	}
	return serve.DefaultUsersFile()
}

// change makes cmd one that changes the users file, of which run gets the path.
func (f *usersFlag) change(cmd *cobra.Command, run func(cmd *cobra.Command, path string, args []string) error) {
	f.add(cmd)
	cmd.ValidArgsFunction = f.complete
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, err := f.path()
		if err != nil {
			return err
		}
		return run(cmd, path, args)
	}
}

// open loads the users file, which must be there.
func (f *usersFlag) open() (*users.Directory, string, error) {
	path, err := f.path()
	if err != nil {
		return nil, "", err
	}
	d, err := serve.OpenUsersFile(path)
	return d, path, err
}

// complete offers the names of users.
func (f *usersFlag) complete(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	d, _, err := f.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return d.Names(), cobra.ShellCompDirectiveNoFileComp
}

const userListHelp = `List the users of a users file, one a line: how each logs in, what each may do,
with which directory, how fast, and from where. Nothing secret is shown.`

func newUserList() *cobra.Command {
	var file usersFlag
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the users",
		Long:    userListHelp,
		Example: "  haul user list\n  haul user list --users ./users",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, _, err := file.open()
			if err != nil {
				return err
			}
			for _, w := range d.Warnings() {
				fmt.Fprintf(console.NewPlainWriter(cmd.ErrOrStderr()), "haul: %v\n", w)
			}
			return listUsers(cmd.OutOrStdout(), d)
		},
	}
	file.add(cmd)
	return cmd
}

// listUsers writes a table.
func listUsers(out io.Writer, d *users.Directory) error {
	w := tabwriter.NewWriter(console.NewPlainWriter(out), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "USER\tLOGIN\tACCESS\tROOT\tLIMIT\tFROM")
	for _, name := range d.Names() {
		u, _ := d.User(name)
		root, limit, from := "-", "-", "-"
		if u.Root != "" {
			root = u.Root
		}
		if u.Limit != 0 {
			limit = console.FormatSize(u.Limit) + "/s"
		}
		if len(u.From) > 0 {
			from = strings.Trim(fmt.Sprint(u.From), "[]")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", u.Name, describeLogin(u), u.Access, root, limit, from)
	}
	return w.Flush()
}

// describeLogin says how somebody logs in.
func describeLogin(u users.User) string {
	var how []string
	if !u.Password.IsZero() {
		how = append(how, "password")
	}
	switch n := len(u.Keys); {
	case n == 1:
		how = append(how, "1 key")
	case n > 1:
		how = append(how, fmt.Sprintf("%d keys", n))
	}
	link := ", "
	if u.Require == users.KeyAndPassword {
		link = " + "
	}
	text := strings.Join(how, link)
	switch {
	case u.Disabled:
		return "disabled"
	case text == "":
		return "no password, no key" // a certificate may do
	}
	return text
}

const userRemoveHelp = `Remove users, with all that the users file says of them. A server that runs
disconnects them within seconds. Their files stay.`

func newUserRemove() *cobra.Command {
	var file usersFlag
	cmd := &cobra.Command{
		Use:     "remove NAME...",
		Short:   "Remove users",
		Long:    userRemoveHelp,
		Example: "  haul user remove alice",
		Args:    args(cobra.MinimumNArgs(1)),
	}
	file.change(cmd, func(cmd *cobra.Command, path string, names []string) error {
		for _, name := range names {
			if err := users.Remove(path, name); err != nil {
				return explainUsers(err, path)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "removed %s from %s\n", name, path)
		}
		return nil
	})
	return cmd
}

// explainUsers says what to do about a users file that could not be changed.
func explainUsers(err error, path string) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w; whoever may write %s and its directory can do it, --users names another file", err, path)
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w; --users names another file", err)
	}
	return err
}

// makeUsersDir makes the directory of the users file that is meant when none is
// named. One that was named must be there, as it may be a slip.
func makeUsersDir(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return failure.Local.Errorf("make the directory of the users file: %w; --users FILE names another place", err)
	}
	return nil
}
