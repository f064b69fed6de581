package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/config"
	"github.com/haul-project/haul/cmd/haul/internal/server/serve"
)

const configHelp = `Check, show and make the configuration of "haul serve".

Settings come from a file, from variables and from flags: see "haul help configuration".`

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:         "config",
		Short:       "Check, show and make the configuration of a server",
		Long:        configHelp,
		Example:     "  haul config check /etc/haul/haul.toml\n  haul config show --origin\n  haul config convert --tftpd-hpa /etc/default/tftpd-hpa",
		Annotations: commandline.More("", "configuration"),
		Args:        program.NoCommand,
		RunE:        func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigCheck(), newConfigShow(), newConfigConvert())
	return cmd
}

const configCheckHelp = `Report all mistakes of a configuration.

It reads FILE, or else the file that "haul serve" without DIR would read, and the
variables; it opens the files and directories that they name, and no socket. With a
mistake, the exit code is not 0.

--pid checks what a running server would read at SIGHUP: its file, with the flags on its
command line. A server without a file, which SIGHUP would end, is a mistake.`

func newConfigCheck() *cobra.Command {
	pid, file := 0, ""
	cmd := &cobra.Command{
		Use:         "check [FILE]",
		Short:       "Report all mistakes of a configuration",
		Long:        configCheckHelp,
		Example:     "  haul config check\n  haul config check new.toml\n  haul config check --pid 1234",
		Args:        commandline.Args(cobra.MaximumNArgs(1)),
		Annotations: commandline.More("pid", "configuration"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var words []string
			var err error
			if file != "" {
				args = append(args, file)
			}
			switch given := cmd.Flags().Changed("pid"); {
			case given && len(args) > 0:
				return failure.Usage.Errorf("--pid names a server, which has a file: FILE has no effect")
			case given:
				words, err = runningServer(pid)
			case len(args) > 1:
				return failure.Usage.Errorf("--config names the file, as %s does: name one", args[0])
			case len(args) > 0:
				words = []string{"--config", args[0]}
			case config.DefaultFile() == "":
				return failure.Usage.Errorf("there is no file %s; name another", config.DefaultFiles)
			}
			if err != nil {
				return err
			}
			var f serveFlags
			serving, err := f.parse(words)
			if err != nil {
				return err
			}
			cfg, err := f.resolve(serving, serving.Flags().Args())
			switch {
			case err == nil && f.file == "":
				return failure.Usage.Errorf("process %d has no configuration file to read again, and SIGHUP would end it: restart it, or start it with --config FILE", pid)
			case err == nil:
				err = f.settings.Located(serve.DryRun(cfg, cmd.OutOrStdout()))
			}
			return mistakes(err)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "check `FILE`, as if it stood alone")
	cmd.Flags().IntVar(&pid, "pid", 0, "check what the running server with process number `PID` would read at SIGHUP")
	return cmd
}

// runningServer returns the arguments of a running server process, without the words "haul serve".
func runningServer(pid int) ([]string, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if errors.Is(err, fs.ErrNotExist) && isProcess(pid) {
		return nil, failure.Local.Errorf("read the command line of process %d: the system hides it, as a server with hooks lets no process of its user look; take ProtectProc=invisible out of its unit, or run this as root", pid)
	}
	if err != nil {
		return nil, failure.Local.Errorf("read the command line of process %d: %w", pid, err)
	}
	words := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	if len(words) < 2 || words[1] != "serve" {
		return nil, failure.Usage.Errorf("process %d is none of haul serve, but %q", pid, words)
	}
	return words[2:], nil
}

// isProcess reports whether there is a process with this ID.
func isProcess(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, fs.ErrPermission)
}

const configShowHelp = `Print the settings that "haul serve" would have.

It takes the flags of "haul serve", reads the same file and variables, and prints a file
that has the same effect. Defaults are comments. Passwords and keys are in files of their
own, of which only the names are printed.`

func newConfigShow() *cobra.Command {
	var f serveFlags
	origin := false
	cmd := &cobra.Command{
		Use:         "show [DIR...]",
		Short:       "Print the settings that a server would have",
		Long:        configShowHelp,
		Example:     "  haul config show\n  haul config show --origin --tftp :6969 /srv/tftp",
		Annotations: commandline.More("config origin", "configuration"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := f.resolve(cmd, args); err != nil {
				return mistakes(err)
			}
			return failure.Local.Wrap(f.settings.Write(cmd.OutOrStdout(), origin))
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&origin, "origin", false, "print where each setting comes from: file and line, variable, flag or default")
	return cmd
}
