package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/users"
)

const userSetHelp = `Change what a user may do.

All else stays as it is, comments included. An empty value removes the statement, so
that the default of the file applies: --root "", --limit 0.

A running server applies the change within seconds. It disconnects a session with
another root or access, or that a new network or requirement excludes.`

const userSetExamples = `  haul user set alice --access read-only --limit 20M
  haul user set backup --from 192.0.2.0/24,2001:db8::/32
  haul user set alice --require key+password
  haul user set alice --root ""                all of DIR from now on`

func newUserSet() *cobra.Command {
	var file usersFlag
	var root, access, require string
	var limit console.ByteSize
	var from []string
	cmd := &cobra.Command{
		Use:         "set NAME",
		Short:       "Change what a user may do",
		Long:        userSetHelp,
		Example:     userSetExamples,
		Args:        args(cobra.ExactArgs(1)),
		Annotations: more("", "users-file", "sizes"),
	}
	file.change(cmd, func(cmd *cobra.Command, path string, args []string) error {
		nets, err := parseNetworks("from", from)
		if err != nil {
			return err
		}
		rate := ""
		if limit != 0 {
			rate = strconv.FormatInt(int64(limit), 10)
		}
		values := map[string]string{
			"root": root, "access": access, "require": require,
			"limit": rate, "from": strings.Trim(fmt.Sprint(nets), "[]"),
		}
		if _, err := users.ParseAccess(access); err != nil && access != "" {
			return failure.Usage.Errorf("--%w", err)
		}
		if _, err := users.ParseRequire(require); err != nil && require != "" {
			return failure.Usage.Errorf("--require: %w", err)
		}
		var settings []users.Setting
		for _, keyword := range []string{"root", "access", "limit", "from", "require"} {
			if cmd.Flags().Changed(keyword) {
				settings = append(settings, users.Setting{Keyword: keyword, Value: values[keyword]})
			}
		}
		if len(settings) == 0 {
			return failure.Usage.Errorf("nothing to change: give --root, --access, --limit, --from or --require")
		}
		if err := users.Set(path, args[0], settings...); err != nil {
			return explainUsers(err, path)
		}
		return showUser(cmd.OutOrStdout(), &file, args[0])
	})
	flags := cmd.Flags()
	flags.StringVar(&root, "root", "", "show the user this `DIR` as /")
	flags.StringVar(&access, "access", "", "let the user do this: `ACCESS` is full, read-only or upload-only")
	flags.Var(&limit, "limit", "bytes a second each way, such as 20MB (0: the default of the file)")
	flags.StringSliceVar(&from, "from", nil, "let the user log in from this `NETWORK` only; several are separated by commas")
	flags.StringVar(&require, "require", "", "require this for a login: `HOW` is any or key+password")
	completeAccess(cmd)
	completeWords(cmd, "require", users.AnyMethod.String(), users.KeyAndPassword.String())
	return cmd
}

// newUserDisable is "haul user disable" or, the other way round, "haul user enable".
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
	cmd.Args = args(cobra.MinimumNArgs(1))
	file.change(cmd, func(cmd *cobra.Command, path string, names []string) error {
		verb, _, _ := strings.Cut(cmd.Use, " ")
		for _, name := range names {
			if err := users.SetDisabled(path, name, disable); err != nil {
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
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return showUser(cmd.OutOrStdout(), &file, args[0])
		},
		ValidArgsFunction: file.complete,
	}
	file.add(cmd)
	return cmd
}

// find returns a user of the users file.
func (f *usersFlag) find(name string) (users.User, error) {
	d, path, err := f.open()
	if err != nil {
		return users.User{}, err
	}
	u, ok := d.User(name)
	if !ok {
		return u, fmt.Errorf("there is no user %q in %s; \"haul user add\" adds one", name, path)
	}
	return u, nil
}

// showUser prints what holds for a user.
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
	line("login", describeLogin(u))
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

// describeKey returns the options, type, fingerprint and comment of a key.
func describeKey(k users.Key) string {
	if k.Public == nil {
		return "not usable: " + k.String()
	}
	options, _, _ := strings.Cut(k.String(), k.Public.Type())
	return strings.TrimSpace(options + k.Public.Type() + " " + k.Fingerprint() + " " + k.Comment)
}

const userKeyHelp = `Add, remove or list the SSH keys of a user.

A running server applies the change within seconds, and disconnects sessions that
logged in with a removed key.`

const userKeyExamples = `  haul user key add alice ~/.ssh/id_ed25519.pub
  haul user key add backup 'from="10.0.0.0/8" ssh-ed25519 AAAA... backup'
  haul user key list alice
  haul user key remove alice SHA256:Z4Kpq/cX+mLdQWACPHkB7p1+h+Nz8moeRfaMkMUB7p8
  haul user key remove alice alice@laptop      by its comment`

func newUserKey() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "key",
		Short:   "Add, remove or list a user's keys",
		Long:    userKeyHelp,
		Example: userKeyExamples,
		Args:    noCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newUserKeyAdd(), newUserKeyRemove(), newUserKeyList())
	return cmd
}

func newUserKeyAdd() *cobra.Command {
	var file usersFlag
	cmd := &cobra.Command{
		Use:   "add NAME KEY...",
		Short: "Add keys to a user",
		Long: "Add public keys to a user.\n\nA KEY is a file such as id_ed25519.pub or authorized_keys, the line of such a file, or - for\n" +
			"standard input. The options of the line apply.",
		Example: "  haul user key add alice ~/.ssh/id_ed25519.pub",
		Args:    args(cobra.MinimumNArgs(2)),
	}
	file.change(cmd, func(cmd *cobra.Command, path string, args []string) error {
		var keys []users.Key
		for _, word := range args[1:] {
			more, err := readKeys(cmd.InOrStdin(), word)
			if err != nil {
				return err
			}
			keys = append(keys, more...)
		}
		if err := users.AddKeys(path, args[0], keys...); err != nil {
			return explainUsers(err, path)
		}
		for _, k := range keys {
			fmt.Fprintf(cmd.OutOrStdout(), "added %s to %s\n", describeKey(k), args[0])
		}
		return nil
	})
	return cmd
}

func newUserKeyRemove() *cobra.Command {
	var file usersFlag
	cmd := &cobra.Command{
		Use:     "remove NAME KEY...",
		Short:   "Remove keys from a user",
		Long:    "Remove keys from a user.\n\nA KEY is a fingerprint as \"haul user key list\" prints it, or the comment of one key. Keys\nin other files have to be removed there.",
		Example: "  haul user key remove alice alice@laptop",
		Args:    args(cobra.MinimumNArgs(2)),
	}
	file.change(cmd, func(cmd *cobra.Command, path string, args []string) error {
		u, err := file.find(args[0])
		if err != nil {
			return err
		}
		for _, word := range args[1:] {
			k, err := findKey(u, word)
			if err != nil {
				return err
			}
			same := func(other users.Key) bool { return other.Fingerprint() == k.Fingerprint() }
			if err := users.RemoveKeys(path, u.Name, same); err != nil {
				return explainUsers(err, path)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "removed %s from %s\n", describeKey(k), u.Name)
		}
		return nil
	})
	return cmd
}

// findKey returns the one key of a user that has a fingerprint or a comment.
func findKey(u users.User, word string) (found users.Key, err error) {
	for _, k := range u.Keys {
		if k.Public == nil || k.Fingerprint() != word && k.Comment != word {
			continue
		}
		if found.Public != nil && found.Fingerprint() != k.Fingerprint() {
			return k, fmt.Errorf("several keys of %s have the comment %q; name one by its fingerprint: %s, %s", u.Name, word, found.Fingerprint(), k.Fingerprint())
		}
		found = k
	}
	if found.Public == nil {
		return found, fmt.Errorf("user %s has no key with the fingerprint or comment %q; \"haul user key list %s\" lists them", u.Name, word, u.Name)
	}
	return found, nil
}

func newUserKeyList() *cobra.Command {
	var file usersFlag
	cmd := &cobra.Command{
		Use:     "list NAME",
		Short:   "List a user's keys",
		Long:    "List the keys of a user, one a line: options, type, fingerprint and comment.\n\nKeys in files that the users file names are listed too.",
		Example: "  haul user key list alice",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			u, err := file.find(args[0])
			if err != nil {
				return err
			}
			if len(u.Keys) == 0 {
				return errors.New("user " + u.Name + " has no keys")
			}
			for _, k := range u.Keys {
				fmt.Fprintln(console.NewPlainWriter(cmd.OutOrStdout()), describeKey(k))
			}
			return nil
		},
		ValidArgsFunction: file.complete,
	}
	file.add(cmd)
	return cmd
}
