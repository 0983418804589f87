// Objects that a test reaches while they live.
#pragma once

#include <functional>
#include <set>

#include "sync/mutex.h"

namespace alignd::mirror {

// The living objects of a class.
template <typename T>
class Living {
 public:
  void Add(T* one) {
    const MutexLock lock(mutex_);
    all_.insert(one);
  }
  void Remove(T* one) {
    const MutexLock lock(mutex_);
    all_.erase(one);
  }
  void WithAll(const std::function<void(T&)>& work) {
    const MutexLock lock(mutex_);
    for (T* one : all_) work(*one);
  }

 private:
  Mutex mutex_;
  std::set<T*> all_ GUARDED_BY(mutex_);
};

}  // namespace alignd::mirror
