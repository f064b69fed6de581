package main

import (
	"context"
	"errors"
	"os"
)

// Windows has no signals to ask for a restart by, and no descriptors to hand on.

type starter struct{}

func startStarter([]string) (*starter, error) {
	return nil, usagef("--restartable: Windows cannot hand sockets to another process")
}

func (*starter) start(context.Context, []handed) (*successor, error) {
	return nil, errors.ErrUnsupported
}

func (*starter) Close() error { return nil }

type successor struct{ pid int }

func (*successor) begin() error      { return nil }
func (*successor) over(string) error { return nil }
func (*successor) Close() error      { return nil }

type predecessor struct{}

func findPredecessor() (*predecessor, error)          { return nil, nil }
func (*predecessor) take() []handed                   { return nil }
func (*predecessor) ready(context.Context) error      { return nil }
func (*predecessor) wait(context.Context, string)     {}
func (*predecessor) Close() error                     { return nil }
func restartSignals() (<-chan os.Signal, func())      { return nil, func() {} }
func isStarter() (run func() (exitCode int), is bool) { return nil, false }
