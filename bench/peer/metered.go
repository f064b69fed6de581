package peer

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Usage is the cost of a client that has ended, including all processes that it started.
type Usage struct {
	Wall   time.Duration // time from the client's start to its exit
	CPU    time.Duration // user and system time
	Memory int64         // peak of the resident memory in bytes, measured like Process.Memory
}

// Metered runs a command to its end and returns its cost. The error is that of cmd.Run, or
// describes what could not be measured.
func Metered(ctx context.Context, cmd *exec.Cmd) (Usage, error) {
	g, err := newGroup()
	if err != nil {
		return Usage{}, err
	}
	defer g.remove()
	var u Usage
	began, joining := time.Now(), g.begin(cmd)
	err = cmd.Start()
	joined := joining()
	if err != nil {
		return u, err
	}
	var sampling sync.WaitGroup
	var peak atomic.Int64
	ended, stop := context.WithCancel(ctx)
	sampling.Go(func() {
		for ended.Err() == nil {
			begun := time.Now()
			peak.Store(max(peak.Load(), residentOf(g)))
			select {
			case <-time.After(max(sampleEvery, sampleShare*time.Since(begun))):
			case <-ended.Done():
			}
		}
	})
	failed := cmd.Wait()
	u.Wall = time.Since(began)
	stop()
	sampling.Wait()
	// Kill processes that the command has left behind. They would disturb the next command, and
	// nothing would count them.
	for range killTries {
		pids := g.pids()
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // an error means that the process has just ended
		}
		if len(pids) == 0 {
			break
		}
		time.Sleep(killPoll)
	}
	u.Memory = peak.Load()
	if _, ok := g.(*processTree); ok {
		u.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	} else if u.CPU, err = g.cpu(); err != nil && failed == nil {
		failed = fmt.Errorf("read the CPU time of %s: %w", cmd.Path, err)
	}
	if failed == nil {
		failed = joined
	}
	return u, failed
}

func residentOf(g group) int64 {
	var sum int64
	for _, pid := range g.pids() {
		sum += resident(pid)
	}
	return sum
}
