package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/serve"
	"github.com/haul-project/haul/users"
)

const userHelp = `Manage the users who may log in to "haul serve".

The users file says who may log in by SFTP, and over HTTP if --http-auth names the
file. HTTP takes passwords only: users without one, and those who need a key as well,
cannot log in there.

A running server applies a change within seconds. Without --users, the commands use
the file that "haul serve" uses for SFTP:
` + serve.UsersPlaces + `.`

func newUser() *cobra.Command {
	cmd := &cobra.Command{
		Use:         "user",
		Short:       "Manage the users who may log in by SFTP or HTTP",
		Long:        userHelp,
		Example:     "  haul user add alice --key ~/.ssh/id_ed25519.pub --root alice\n  haul user list",
		Annotations: more("", "users-file"),
		Args:        noCommand,
		RunE:        func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newUserAdd(), newUserList(), newUserShow(), newUserSet(), newUserKey(), newUserPassword(),
		newUserDisable(true), newUserDisable(false), newUserRemove())
	return cmd
}

const userListHelp = `List the users of a users file, one a line.

Each line has how the user logs in, what they may do, with which directory, how fast,
and from where. Nothing secret is shown.`

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

const userRemoveHelp = `Remove users from the users file, with everything that it says about them.

A running server disconnects them within seconds. Their files stay.`

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
