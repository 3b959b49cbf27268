//! The audit record: leases and instances, page by page.

use super::input::{check_after, check_space};
use super::{Service, ServiceError};
use crate::store::{InstancePage, InstanceRecord, LeasePage, LeaseRecord};

impl Service {
    /// Leases by space and then by age.
    pub async fn leases(&self, page: &LeasePage) -> Result<Vec<LeaseRecord>, ServiceError> {
        page.space.as_deref().map_or(Ok(()), check_space)?;
        if let Some((space, _)) = &page.after {
            check_space(space).map_err(|_| ServiceError::BadAfter)?;
        }
        Ok(self.inner.store.leases.leases(page).await?)
    }

    /// Instances by age.
    pub async fn instances(
        &self,
        page: &InstancePage,
    ) -> Result<Vec<InstanceRecord>, ServiceError> {
        check_after(page.after.as_deref())?;
        Ok(self.inner.store.instances.instances(page).await?)
    }
}
