package main

import "golang.org/x/sys/windows"

// freeSpace returns how many bytes this user may still write in a folder.
func freeSpace(dir string) (free uint64, known bool) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return free, err == nil
}
