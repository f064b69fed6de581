package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/failure"
)

// version is set by the Makefile; a build by "go install" knows its own.
var version string

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  haul version",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionLine())
			return failure.Local.Wrap(err)
		},
	}
}

// addVersionFlag makes --version and -V print what "haul version" does.
func addVersionFlag(root *cobra.Command) {
	root.Version = versionString()
	root.SetVersionTemplate(versionLine())
	root.Flags().BoolP("version", "V", false, "print the version")
}

func versionLine() string {
	return fmt.Sprintf("haul %s (%s, %s/%s)\n", versionString(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func versionString() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown version)"
}
