//! The audit record: leases and instances, page by page.

use super::{Service, ServiceError};
use crate::store::{InstancePage, InstanceRecord, LeasePage, LeaseRecord};

impl Service {
    /// Leases by space and then by age.
    pub async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, ServiceError> {
        Ok(self.inner.store.leases(page).await?)
    }

    /// Instances by age.
    pub async fn instances(
        &self,
        page: &InstancePage,
    ) -> Result<Vec<InstanceRecord>, ServiceError> {
        Ok(self.inner.store.instances(page).await?)
    }
}
