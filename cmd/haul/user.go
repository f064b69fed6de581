package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/users"
)

const userHelp = `Manage the users who may log in to "haul serve".

The users file says who may log in by SFTP, and over HTTP if --http-auth names the
file. HTTP takes passwords only: users without one, and those who need a key as well,
cannot log in there.

A running server applies a change within seconds. Without --users, the commands use
the file that "haul serve" uses for SFTP:
` + settings.UsersPlaces + `.`

func newUser() *cobra.Command {
	cmd := &cobra.Command{
		Use:         "user",
		Short:       "Manage the users who may log in by SFTP or HTTP",
		Long:        userHelp,
		Example:     "  haul user add alice --key ~/.ssh/id_ed25519.pub --root alice\n  haul user list",
		Annotations: commandline.More("", "users-file"),
		Args:        program.NoCommand,
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
		Args:    commandline.Args(cobra.NoArgs),
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

// listUsers prints a table of users.
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
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", u.Name, loginMethods(u), u.Access, root, limit, from)
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
		Args:    commandline.Args(cobra.MinimumNArgs(1)),
	}
	file.change(cmd, func(cmd *cobra.Command, path string, names []string) error {
		for _, name := range names {
			if err := users.Remove(cmd.Context(), path, name); err != nil {
				return explainUsers(err, path)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "removed %s from %s\n", name, path)
		}
		return nil
	})
	return cmd
}

// newUserDisable returns "haul user disable" or, if disable is not set, "haul user enable".
func newUserDisable(disable bool) *cobra.Command {
	var file usersFlag
	cmd := &cobra.Command{
		Use:     "disable NAME...",
		Short:   "Keep users from logging in",
		Long:    "Keep users from logging in, until \"haul user enable\".\n\nA running server disconnects them within seconds. Their passwords, keys and files stay.",
		Example: "  haul user disable alice",
	}
	if !disable {
		cmd.Use, cmd.Short, cmd.Example = "enable NAME...", "Let disabled users log in again", "  haul user enable alice"
		cmd.Long = "Let users log in again after \"haul user disable\"."
	}
	cmd.Args = commandline.Args(cobra.MinimumNArgs(1))
	file.change(cmd, func(cmd *cobra.Command, path string, names []string) error {
		verb, _, _ := strings.Cut(cmd.Use, " ")
		for _, name := range names {
			if err := users.SetDisabled(cmd.Context(), path, name, disable); err != nil {
				return explainUsers(err, path)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%sd %s in %s\n", verb, name, path)
		}
		return nil
	})
	return cmd
}

func newUserShow() *cobra.Command {
	var file usersFlag
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show one user",
		Long:    "Show all settings of one user, defaults of the file included.\n\nOf the password haul shows only its kind, and of keys the fingerprint, the comment and the\noptions.",
		Example: "  haul user show alice",
		Args:    commandline.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return showUser(cmd.OutOrStdout(), &file, args[0])
		},
		ValidArgsFunction: file.complete,
	}
	file.add(cmd)
	return cmd
}

// showUser prints all settings that apply to a user.
func showUser(out io.Writer, file *usersFlag, name string) error {
	u, err := file.find(name)
	if err != nil {
		return err
	}
	out = console.NewPlainWriter(out)
	line := func(what, value string) { fmt.Fprintf(out, "%-9s %s\n", what, value) }
	orDash := func(value string) string {
		if value == "" {
			return "-"
		}
		return value
	}
	line("user", u.Name)
	line("login", loginMethods(u))
	line("password", u.Password.String())
	line("require", u.Require.String())
	line("access", u.Access.String())
	line("root", orDash(u.Root))
	limit := "-"
	if u.Limit != 0 {
		limit = console.FormatSize(u.Limit) + "/s"
	}
	line("limit", limit)
	line("from", orDash(strings.Trim(fmt.Sprint(u.From), "[]")))
	for _, k := range u.Keys {
		line("key", describeKey(k))
	}
	return nil
}
